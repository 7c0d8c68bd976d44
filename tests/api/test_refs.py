"""How jobs are named."""

from __future__ import annotations

from uuid import UUID

import pytest

from horarium import errors
from horarium.api import refs

ID = "0193f4c2-5a00-7003-9c1e-5f0a3c4d2e1b"


def test_a_path_takes_an_id_or_a_prefixed_name() -> None:
    assert refs.job(ID) == refs.job(ID.upper()) == UUID(ID)
    assert refs.job("name:a/b") == "a/b"
    assert refs.job(f"name:{ID}") == ID
    assert refs.job("name:name:x") == "name:x"


def test_names_are_looked_up_in_normal_form() -> None:
    assert refs.job("name:e\u0301") == "\u00e9"


@pytest.mark.parametrize(
    "text", ["nightly", "", ID[:-1], "{" + ID + "}", ID.replace("-", ""), f"urn:uuid:{ID}", "name:", "name:a\0b"]
)
def test_everything_else_is_not_found(text: str) -> None:
    with pytest.raises(errors.NotFoundError):
        refs.job(text)


def test_a_query_takes_a_plain_name_too() -> None:
    assert refs.job_in_query("nightly") == refs.job_in_query("name:nightly") == "nightly"
    assert refs.job_in_query(ID) == UUID(ID)
    assert refs.job_in_query(f"name:{ID}") == ID
