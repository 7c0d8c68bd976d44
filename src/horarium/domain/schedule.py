"""A job's schedule: when it is due, within its bounds, spread by its jitter. Pure arithmetic, given every instant.

All instants are aware UTC. The *nominal* time of a fire is the one the schedule names; bounds are tested against it,
and the next one follows from it, never from when something really ran (design rules B1, J2).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, assert_never
from uuid import UUID

from horarium import errors
from horarium.domain import cron, ids, jitter, timing
from horarium.domain.run_at import parse_run_at, relocate
from horarium.domain.timing import Cron, Every, Fold, Once, Timing

__all__ = [
    "Cron",
    "Every",
    "Fold",
    "NextFireMemo",
    "Once",
    "Schedule",
    "Timing",
    "check",
    "count_between",
    "decode",
    "due_time",
    "encode",
    "fires_between",
    "latest_fires",
    "next_fire",
    "parse_run_at",
    "previous_fire",
    "relocate",
]

MICROSECOND = timedelta(microseconds=1)
_BEGINNING = datetime.min.replace(tzinfo=UTC)
COUNT_CAP = 10_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a job runs. `start_at` and `end_at` are both inclusive and test the nominal time (B1).

    An interval without `start_at` fires for the first time one interval after its anchor, the moment it was set.
    """

    timing: Timing
    start_at: datetime | None = None
    end_at: datetime | None = None
    jitter: timedelta = timedelta(0)


def next_fire(schedule: Schedule, after: datetime) -> datetime | None:
    """The first nominal time strictly later than an instant; None if there is none, and the job is finished.

    Raises `InvalidScheduleError` only when the zone has vanished from the zone data (Z3).
    """
    fire = timing.next_fire(schedule.timing, _from(schedule, after))
    return fire if fire is not None and (schedule.end_at is None or fire <= schedule.end_at) else None


def previous_fire(schedule: Schedule, before: datetime) -> datetime | None:
    """The last nominal time strictly earlier than an instant; None if there is none. Raises like `next_fire`."""
    latest = before if schedule.end_at is None else min(before, schedule.end_at + MICROSECOND)
    fire = timing.previous_fire(schedule.timing, latest)
    return fire if fire is not None and fire > _from(schedule, _BEGINNING) else None


def fires_between(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The first `limit` nominal times with after < time <= until, oldest first."""
    return list(islice(_forward(schedule, after, until), limit))


def latest_fires(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The last `limit` nominal times with after < time <= until, oldest first; found walking back from `until`."""
    return list(islice(_backward(schedule, after, until), limit))[::-1]


def count_between(schedule: Schedule, after: datetime, until: datetime, cap: int = COUNT_CAP) -> tuple[int, bool]:
    """How many nominal times have after < time <= until, and whether that is exact.

    Intervals are always counted exactly; of an expression more than `cap` are given as (cap, False).
    """
    until = until if schedule.end_at is None else min(until, schedule.end_at)
    return timing.count_between(schedule.timing, _from(schedule, after), until, cap)


def due_time(job_id: UUID, scheduled_for: datetime, schedule: Schedule, next_nominal: datetime | None) -> datetime:
    """When a run may start: its nominal time plus the job's jitter, before the next nominal time (J1)."""
    if not schedule.jitter:
        return scheduled_for
    bound = schedule.jitter if next_nominal is None else min(schedule.jitter, next_nominal - scheduled_for)
    return scheduled_for + jitter.delay(job_id, scheduled_for, bound)


def check(schedule: Schedule, now: datetime) -> None:
    """Refuse a schedule that cannot be: at create and at edit.

    Raises `InvalidScheduleError` for what cannot be read, for bounds that are crossed (B2), and with code `never_fires`
    if there is no fire within 50 years or none within the bounds (S9). That a one-off is not too late is the affair of
    `parse_run_at`.
    """
    start, end = schedule.start_at, schedule.end_at
    if start is not None and end is not None and start >= end:
        raise errors.InvalidScheduleError("end_at", "is not after start_at", pointer="/end_at")
    if schedule.jitter < timedelta(0):
        raise errors.InvalidScheduleError("jitter_s", "is negative", pointer="/jitter_s")
    match schedule.timing:
        case Cron(expression=expression, timezone=timezone):
            cron.next_fire(expression, timezone, _from(schedule, now))
            first, pointer = next_fire(schedule, now), "/schedule"
        case Every(interval=interval):
            if interval <= timedelta(0):
                raise errors.InvalidScheduleError("interval_s", "is not more than 0", pointer="/interval_s")
            first, pointer = next_fire(schedule, now), "/interval_s"
        case Once(at=at):
            first, pointer = next_fire(schedule, at - MICROSECOND), "/run_at"
        case _ as unreachable:
            assert_never(unreachable)
    if first is None:
        raise errors.InvalidScheduleError(
            pointer[1:], "never fires: there is no fire within start_at and end_at", code="never_fires", pointer=pointer
        )


def encode(schedule: Schedule) -> str:
    """A schedule as a short printable text (a JSON array); equal schedules give equal texts."""
    key: list[Any]
    match schedule.timing:
        case Cron(expression=expression, timezone=timezone):
            key = ["cron", expression, timezone]
        case Every(interval=interval, anchor=anchor):
            key = ["every", interval // MICROSECOND, ids.microseconds(anchor)]
        case Once(at=at, local=local, timezone=timezone, fold=fold):
            key = ["once", ids.microseconds(at), local, timezone, fold]
    bounds = {
        "start": None if schedule.start_at is None else ids.microseconds(schedule.start_at),
        "end": None if schedule.end_at is None else ids.microseconds(schedule.end_at),
        "jitter": schedule.jitter // MICROSECOND or None,
    }
    if given := {name: value for name, value in bounds.items() if value is not None}:
        key.append(given)
    return json.dumps(key, separators=(",", ":"))


@functools.lru_cache(maxsize=131_072)
def decode(key: str) -> Schedule:
    """The schedule of a text made by `encode`. Raises `ValueError` for any other text."""
    match json.loads(key):
        case ["cron", str(expression), str(timezone), *rest]:
            return _bounded(Cron(expression, timezone), rest)
        case ["every", int(interval), int(anchor), *rest]:
            return _bounded(Every(interval * MICROSECOND, _instant(anchor)), rest)
        case ["once", int(at), local, str(timezone), fold, *rest]:
            return _bounded(Once(_instant(at), local, timezone, fold), rest)
        case _:
            raise ValueError(f"not a schedule key: {key[:80]!r}")


class NextFireMemo:
    """Remembers next fires: of a million timers, many share a schedule and a nominal time.

    Holds at most `capacity` answers and starts anew when full. One memo serves one version of the zone data.
    """

    def __init__(self, capacity: int = 262_144) -> None:
        self._capacity = capacity
        self._known: dict[tuple[str, datetime], datetime | None] = {}

    def next(self, key: str, after: datetime) -> datetime | None:
        """`next_fire` of the schedule with that key (see `encode`)."""
        try:
            return self._known[key, after]
        except KeyError:
            return self._learn(key, after)

    def _learn(self, key: str, after: datetime) -> datetime | None:
        if len(self._known) >= self._capacity:
            self._known.clear()
        fire = self._known[key, after] = next_fire(decode(key), after)
        return fire


def _from(schedule: Schedule, after: datetime) -> datetime:
    """Where to look from so that `start_at` itself may be the first fire, and an anchor that was not asked for none.

    A database's clock that is set back must not bring the moment at which an interval was set into the future, to fire there.
    """
    if schedule.start_at is not None:
        return max(after, schedule.start_at - MICROSECOND)
    if isinstance(schedule.timing, Every):
        return max(after, schedule.timing.anchor)
    return after


def _forward(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    fire = next_fire(schedule, after)
    while fire is not None and fire <= until:
        yield fire
        fire = next_fire(schedule, fire)


def _backward(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    fire = previous_fire(schedule, until + MICROSECOND)
    while fire is not None and fire > after:
        yield fire
        fire = previous_fire(schedule, fire)


def _bounded(timing_: Timing, rest: list[dict[str, int]]) -> Schedule:
    given = rest[0] if rest else {}
    start, end = given.get("start"), given.get("end")
    return Schedule(
        timing_,
        None if start is None else _instant(start),
        None if end is None else _instant(end),
        given.get("jitter", 0) * MICROSECOND,
    )


def _instant(microseconds: int) -> datetime:
    return ids.EPOCH + microseconds * MICROSECOND
