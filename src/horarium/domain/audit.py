"""Whether the books of a job balance: each tick that its schedule asked for is a run or a recorded skip, no more, no less.

Pure: given the schedules that governed a job, the nominal times of its runs, and its skips. A skip stands for a stretch of ticks
and tells how many, not which: runs may lie between them. So where stretches are, ticks are counted; everywhere else they are
compared one by one.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from horarium.domain import schedule as schedules

_MICROSECOND = timedelta(microseconds=1)
_NO_LIMIT = 2**62
_BEGINNING, _END = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class Wrong(StrEnum):
    """What can be wrong with ticks."""

    MISSING = "missing"
    DOUBLED = "doubled"
    UNEXPECTED = "unexpected"


class Span(NamedTuple):
    """The nominal times with after < time <= until."""

    after: datetime
    until: datetime

    def has(self, instant: datetime) -> bool:
        """Whether a nominal time lies within."""
        return self.after < instant <= self.until


@dataclass(frozen=True, slots=True)
class Version:
    """A schedule, and the time that it governed."""

    schedule: schedules.Schedule
    span: Span


@dataclass(frozen=True, slots=True)
class Stretch:
    """A recorded skip: `number` ticks from `first` to `last`, or more if that is not `exact` (rule M3)."""

    first: datetime
    last: datetime
    number: int = 1
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Books:
    """What is known of one job. `runs` holds a nominal time twice where there are two runs of it.

    `window`: what is to be judged, at most to where ticks can have been made. `unknown`: times of which nobody can tell any
    more what was due.
    """

    window: Span
    versions: Sequence[Version]
    runs: Sequence[datetime] = ()
    skips: Sequence[Stretch] = ()
    unknown: Sequence[Span] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """`number` ticks from `first` to `last` that are wrong in one way."""

    wrong: Wrong
    first: datetime
    last: datetime
    number: int


@dataclass(slots=True)
class _Stay:
    """Stretches of skips that overlap, as one: so many ticks at least, or exactly."""

    first: datetime
    last: datetime
    number: int
    exact: bool


@dataclass(slots=True)
class _Ledger:
    """What can be judged: ticks that were due, in order; how often each ran; and where skips were written down."""

    due: list[datetime] = field(default_factory=list)
    ran: Counter[datetime] = field(default_factory=Counter)
    stays: list[_Stay] = field(default_factory=list)


def judge(books: Books) -> list[Finding]:
    """Everything that is wrong with a job's ticks, in order of time; nothing when the books balance."""
    unknown = _unknown(books)
    ledger = _Ledger(_due(books, unknown), _ran(books, unknown), _stays(books, unknown))
    apart = [stay for stay in ledger.stays if stay.first != stay.last]
    found = [*_twice(ledger), *_one_by_one(ledger, apart), *_by_number(ledger, apart)]
    return sorted(found, key=lambda finding: (finding.first, finding.wrong))


def due_in(version: Version, window: Span) -> Iterator[datetime]:
    """The ticks that a schedule asked for within a window, in order. A one-off may be made for a moment that has just passed."""
    timing = version.schedule.timing
    if isinstance(timing, schedules.Once):
        if window.has(timing.at) and timing.at <= version.span.until:
            yield timing.at
        return
    after, until = max(version.span.after, window.after), min(version.span.until, window.until)
    yield from schedules.fires_between(version.schedule, after, until, _NO_LIMIT)


def _due(books: Books, unknown: Sequence[Span]) -> list[datetime]:
    due = {tick for version in books.versions for tick in due_in(version, books.window)}
    return sorted(tick for tick in due if not _within(tick, unknown))


def _ran(books: Books, unknown: Sequence[Span]) -> Counter[datetime]:
    return Counter(tick for tick in books.runs if books.window.has(tick) and not _within(tick, unknown))


def _unknown(books: Books) -> list[Span]:
    """Times that cannot be judged: with each stretch that reaches into one, for where in it its ticks lie cannot be told."""
    window = books.window
    unknown = [*books.unknown, Span(_BEGINNING, window.after), Span(window.until, _END)]
    left = list(books.skips)
    while reaching := [each for each in left if _touches(each, unknown)]:
        unknown += [Span(each.first - _MICROSECOND, each.last) for each in reaching]
        left = [each for each in left if each not in reaching]
    return unknown


def _stays(books: Books, unknown: Sequence[Span]) -> list[_Stay]:
    """Overlapping stretches as one, in order; without those that cannot be judged."""
    judged = [
        each for each in sorted(books.skips, key=lambda each: (each.first, each.last)) if not _touches(each, unknown)
    ]
    stays: list[_Stay] = []
    for each in judged:
        if stays and each.first <= stays[-1].last:
            stays[-1].last = max(stays[-1].last, each.last)
            stays[-1].number += each.number
            stays[-1].exact &= each.exact
        else:
            stays.append(_Stay(each.first, each.last, each.number, each.exact))
    return stays


def _touches(stretch: Stretch, unknown: Sequence[Span]) -> bool:
    return any(stretch.first <= span.until and stretch.last > span.after for span in unknown)


def _twice(ledger: _Ledger) -> Iterator[Finding]:
    """Runs of one tick beyond the first."""
    for tick, number in ledger.ran.items():
        if number > 1:
            yield Finding(Wrong.DOUBLED, tick, tick, number - 1)


def _one_by_one(ledger: _Ledger, apart: Sequence[_Stay]) -> Iterator[Finding]:
    """Ticks outside of long stretches: each is due, and ran or was skipped."""
    inside = _Inside(apart)
    skipped = Counter({stay.first: stay.number for stay in ledger.stays if stay.first == stay.last})
    due = [tick for tick in ledger.due if tick not in inside]
    owed = set(due)
    yield from _missing(due, ledger, skipped)
    for tick in sorted({*ledger.ran, *skipped} - owed):
        if tick not in inside:
            yield Finding(Wrong.UNEXPECTED, tick, tick, 1)
    for tick, number in skipped.items():
        more = number - 1 + (tick in ledger.ran)
        if more > 0 and tick in owed:
            yield Finding(Wrong.DOUBLED, tick, tick, more)


def _missing(due: Iterable[datetime], ledger: _Ledger, skipped: Counter[datetime]) -> Iterator[Finding]:
    """Ticks that are neither run nor skip: those that follow each other as one finding."""
    lost: list[datetime] = []
    for tick in due:
        if tick in ledger.ran or tick in skipped:
            yield from _as_one(lost)
            lost = []
        else:
            lost.append(tick)
    yield from _as_one(lost)


def _as_one(lost: Sequence[datetime]) -> Iterator[Finding]:
    if lost:
        yield Finding(Wrong.MISSING, lost[0], lost[-1], len(lost))


def _by_number(ledger: _Ledger, apart: Sequence[_Stay]) -> Iterator[Finding]:
    """Ticks within long stretches: as many were due as ran and were skipped."""
    ran = sorted(ledger.ran)
    due = set(ledger.due)
    for stay in apart:
        first, last = bisect.bisect_left(ran, stay.first), bisect.bisect_right(ran, stay.last)
        owed = bisect.bisect_right(ledger.due, stay.last) - bisect.bisect_left(ledger.due, stay.first)
        for tick in ran[first:last]:
            if tick not in due:
                yield Finding(Wrong.UNEXPECTED, tick, tick, 1)
        accounted = sum(tick in due for tick in ran[first:last]) + stay.number
        if accounted < owed and stay.exact:
            yield Finding(Wrong.MISSING, stay.first, stay.last, owed - accounted)
        elif accounted > owed:
            yield Finding(Wrong.DOUBLED, stay.first, stay.last, accounted - owed)


class _Inside:
    """Answers whether a time lies within one of some stretches that are in order and apart."""

    def __init__(self, apart: Sequence[_Stay]) -> None:
        self._firsts = [stay.first for stay in apart]
        self._lasts = [stay.last for stay in apart]

    def __contains__(self, tick: datetime) -> bool:
        place = bisect.bisect_right(self._firsts, tick) - 1
        return place >= 0 and tick <= self._lasts[place]


def _within(tick: datetime, spans: Sequence[Span]) -> bool:
    return any(span.has(tick) for span in spans)
