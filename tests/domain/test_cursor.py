"""Cursors: they carry their values, and nobody else's are taken."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import cursor

SECRET = b"a secret of the cluster"
VALUES = st.lists(st.integers(min_value=-(2**63), max_value=2**63 - 1) | st.text(max_size=60), max_size=4)


@given(st.text(max_size=40), VALUES)
def test_a_cursor_carries_its_values(scope: str, values: list[cursor.Key]) -> None:
    assert cursor.decode(SECRET, scope, cursor.encode(SECRET, scope, values)) == values


def test_a_cursor_needs_no_escaping_in_a_url() -> None:
    for number in range(200):
        token = cursor.encode(SECRET, "jobs", [number, "ÿ" * (number % 7)])
        assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(("secret", "scope"), [(b"another secret", "jobs"), (SECRET, "runs"), (SECRET, "jobs|queue=a")])
def test_a_cursor_of_another_list_or_cluster_is_refused(secret: bytes, scope: str) -> None:
    with pytest.raises(errors.InvalidError) as caught:
        cursor.decode(secret, scope, cursor.encode(SECRET, "jobs", ["a"]))
    assert caught.value.faults[0].code == "invalid_cursor"
    assert caught.value.faults[0].pointer == "/query/cursor"


def test_a_changed_cursor_is_refused() -> None:
    token = cursor.encode(SECRET, "jobs", ["2026-01-01"])
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(errors.InvalidError):
            cursor.decode(SECRET, "jobs", base64.urlsafe_b64encode(changed).rstrip(b"=").decode())


@given(st.text(max_size=80))
def test_anything_else_is_refused_and_never_breaks(text: str) -> None:
    with pytest.raises(errors.InvalidError):
        cursor.decode(SECRET, "jobs", text)


def test_an_endless_cursor_is_refused_unread() -> None:
    with pytest.raises(errors.InvalidError):
        cursor.decode(SECRET, "jobs", "A" * 100_000)
