"""Versions in headers."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from horarium import errors
from horarium.api import etags


def request(**headers: str) -> Request:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": pairs})


def test_a_version_becomes_a_strong_tag() -> None:
    assert etags.of_version(7) == {"ETag": '"7"'}


@pytest.mark.parametrize(("header", "version"), [('"7"', 7), (' "12" ', 12), ("*", None)])
def test_if_match_names_a_version(header: str, version: int | None) -> None:
    assert etags.if_match(request(if_match=header)) == version


def test_without_the_header_any_version_will_do() -> None:
    assert etags.if_match(request()) is None
    assert etags.only_new(request()) is False


@pytest.mark.parametrize("header", ["7", 'W/"7"', '"a"', '"7", "8"', "", '"99999999999"'])
def test_what_names_no_version_is_refused(header: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        etags.if_match(request(if_match=header))
    assert caught.value.faults[0].pointer == "/header/If-Match"


def test_if_none_match_takes_a_star_only() -> None:
    assert etags.only_new(request(if_none_match="*")) is True
    with pytest.raises(errors.InvalidError):
        etags.only_new(request(if_none_match='"7"'))
