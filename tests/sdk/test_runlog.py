"""The lines an attempt says: kept until acknowledged, bounded, fit for the wire."""

from __future__ import annotations

from typing import Any

import pytest

from horarium.protocol import messages
from horarium.sdk import runlog, text


def said(log: runlog.RunLog, **limits: int) -> list[tuple[int, str]]:
    return [(line.seq, line.message) for line in log.pending(**limits)]


def test_lines_stay_until_they_are_acknowledged() -> None:
    log = runlog.RunLog()
    for message in ("a", "b", "c"):
        log.add("info", message)
    assert said(log) == [(1, "a"), (2, "b"), (3, "c")]
    log.acknowledge(2)
    assert said(log) == [(3, "c")]
    log.acknowledge(1)
    assert said(log) == [(3, "c")]


def test_a_full_log_says_so_once() -> None:
    log = runlog.RunLog(max_lines=3)
    for number in range(10):
        log.add("info", str(number))
    assert [message for _, message in said(log)] == [
        "0",
        "1",
        "the log of this attempt is full; further lines are dropped",
    ]
    sized = runlog.RunLog(max_chars=10)
    sized.add("info", "123456789")
    sized.add("info", "12")
    assert len(said(sized)) == 2 and said(sized)[1][1].startswith("the log of this attempt is full")


def test_only_so_many_characters_at_a_time() -> None:
    log = runlog.RunLog()
    for _ in range(10):
        log.add("info", "x" * 100)
    assert len(log.pending(250)) == 3


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"n": 1, "at": None}, b'{"n":1,"at":null}'),
        ({"o": ValueError("odd")}, b'{"o":"odd"}'),
        ({"s": "\ud800"}, b'{"s":"\'\\\\ud800\'"}'),
    ],
)
def test_fields_are_json_whatever_they_hold(fields: dict[str, Any], written: bytes) -> None:
    log = runlog.RunLog()
    log.add("info", "m", fields)
    assert bytes(log.pending()[0].fields) == written  # type: ignore[arg-type]
    messages.encode(messages.HeldRun("r", 1, logs=log.pending()))


def test_text_is_made_fit() -> None:
    assert text.clean("a\0b\ud800", 10) == "a�b?"
    assert text.clean("x" * 11, 10) == "x" * 9 + "…"
    assert text.clean_tail("abcdef", 4) == "…def"
    assert text.clean_tail("abc", 4) == "abc"
