"""Named SQL: how a file is split, and what is wrong with one."""

from __future__ import annotations

import pytest

from horarium.store import statements

TEXT = """-- A word about the file.
-- name: first
-- What for.
SELECT 1;

-- name: second_2
SELECT ';'
  -- name: not_one
;
"""


def test_a_file_is_split_at_its_names() -> None:
    found = statements.parse(TEXT)
    assert found == {
        "first": "-- name: first\n-- What for.\nSELECT 1",
        "second_2": "-- name: second_2\nSELECT ';'\n  -- name: not_one\n",
    }


def test_a_file_without_names_is_refused() -> None:
    with pytest.raises(ValueError, match="no statement has a name"):
        statements.parse("SELECT 1;")


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements are named first"):
        statements.parse("-- name: first\nSELECT 1;\n-- name: first\nSELECT 2;")


def test_a_name_that_is_not_there_is_told_with_its_file() -> None:
    with pytest.raises(AttributeError, match=r"database\.sql has no statement named missing"):
        _ = statements.load("database").missing


def test_a_file_is_read_once() -> None:
    assert statements.load("runs") is statements.load("runs")
    assert "claim" in statements.load("runs").names()
    assert statements.load("runs").claim.startswith("-- name: claim\n")


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        statements.load("nothing")
