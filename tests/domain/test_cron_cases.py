"""990 cases of 13 public cron libraries and of our own, each answered as the case file says Horarium answers it.

The file holds facts: expression, zone, start, expected fires; where we differ from the source, `horarium_why` says why.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from horarium import errors
from horarium.domain import cron

FILE = Path(__file__).parents[1] / "data" / "cron_cases.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def cases(*answers: str) -> list[dict[str, Any]]:
    return [case for case in CASES if case["horarium"] in answers]


def start(case: dict[str, Any]) -> datetime:
    """The instant to ask from: strictly later fires are wanted, so an inclusive start is asked from a second earlier."""
    instant = datetime.fromisoformat(case["start"]).astimezone(UTC) if "start" in case else SOME_DAY
    return instant - timedelta(seconds=1) if case.get("start_inclusive") else instant


def walk(case: dict[str, Any]) -> Iterator[datetime]:
    fire = cron.next_fire(case["expr"], case["timezone"], start(case))
    while fire is not None:
        yield fire
        fire = cron.next_fire(case["expr"], case["timezone"], fire)


def expected(case: dict[str, Any]) -> list[datetime]:
    texts = case["horarium_fires"] if case["horarium"] == "differs" else case.get("fires", [])
    return [datetime.fromisoformat(text) for text in texts]


def answered(case: dict[str, Any]) -> list[datetime]:
    """As many fires as are expected; with `nth`, only the n-th."""
    nth = case.get("nth")
    fires = list(islice(walk(case), nth or len(expected(case))))
    return fires[-1:] if nth else fires


def test_the_file_is_whole() -> None:
    assert len(CASES) == 990
    assert {case["horarium"] for case in CASES} == {"same", "differs", "refuse", "accept"}


@pytest.mark.parametrize("answer", ["same", "differs"])
def test_fires_are_those_that_are_promised(answer: str) -> None:
    wrong = [
        f"{case['id']} {case['expr']!r} {case['timezone']}: {answered(case)}, not {expected(case)}"
        for case in cases(answer)
        if answered(case) != expected(case)
    ]
    assert wrong == []


def test_walking_back_meets_the_same_fires() -> None:
    wrong = []
    for case in cases("same", "differs"):
        for fire in answered(case):
            back = cron.previous_fire(case["expr"], case["timezone"], fire + timedelta(microseconds=1))
            if back != fire:
                wrong.append(f"{case['id']} {case['expr']!r} {case['timezone']}: {back}, not {fire}")
    assert wrong == []


def test_instants_that_are_no_fires_are_none() -> None:
    wrong = [
        f"{case['id']} {case['expr']!r} fires at {instant}"
        for case in cases("same", "differs", "accept")
        for instant in map(datetime.fromisoformat, case.get("not_at", []))
        if cron.next_fire(case["expr"], case["timezone"], instant - timedelta(seconds=1)) == instant
    ]
    assert wrong == []


def test_what_is_refused_is_refused() -> None:
    taken = []
    for case in cases("refuse"):
        with contextlib.suppress(errors.InvalidScheduleError):
            fire = cron.next_fire(case["expr"], case["timezone"], start(case))
            taken.append(f"{case['id']} {case['expr']!r}: {fire}")
    assert taken == []


def test_what_never_fires_is_refused_as_such() -> None:
    """A well-formed expression without a day in the calendar is told apart from one that cannot be read."""
    impossible = [
        case
        for case in cases("refuse")
        if case["source_says"] == "never_fires" and not any(syntax in case["expr"] for syntax in ("W", "L-"))
    ]
    assert impossible
    for case in impossible:
        with pytest.raises(errors.InvalidScheduleError) as caught:
            cron.next_fire(case["expr"], case["timezone"], start(case))
        assert caught.value.code == "never_fires", case


def test_what_only_the_source_refuses_is_taken() -> None:
    for case in cases("accept"):
        assert cron.next_fire(case["expr"], case["timezone"], start(case)) is not None, case
