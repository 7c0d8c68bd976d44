"""When a job runs, read from its body: `schedule`, `interval_s`, `run_at` or `run_in_s`, in a zone, within bounds.

Every fault is noted, not the first only: an expression is looked at also when the zone is unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from horarium import errors
from horarium.domain import cron, job, job_fields, run_at, schedule, timing, zones
from horarium.domain.job_fields import Faults

NOW = "now"
WAYS = ("schedule", "interval_s", "run_at", "run_in_s")

# Fifty years: whatever comes later never fires (rule S9). It also keeps the column, 32 bits wide, from overflowing.
MAX_INTERVAL_S = 50 * 366 * 86_400
MAX_RUN_IN_S = 174 * 366 * 86_400


def _text(value: Any, pointer: str, faults: Faults) -> str | None:
    if type(value) is str:
        return value
    faults.add(pointer, f"{job_fields.shown(value)} is not a string")
    return None


READERS: Mapping[str, job_fields.Reader] = {
    "schedule": _text,
    "interval_s": job_fields.integer(1, MAX_INTERVAL_S),
    "run_at": _text,
    "run_in_s": job_fields.number(0, MAX_RUN_IN_S),
    "fold": job_fields.word(("first", "second")),
    "timezone": _text,
    "start_at": job_fields.instant,
    "end_at": job_fields.instant,
}


def resolve(given: Mapping[str, Any], now: datetime, faults: Faults, held: job.JobSpec | None = None) -> dict[str, Any]:
    """The timing fields of a job, from the members that were read by `READERS`.

    Looks at them together: exactly one way (rule O4), a zone that exists (Z0), an expression that fires (S9), bounds
    that are not crossed (B2), a one-off that is not too late, not too far, and that exists (O1 to O3). A moment that is
    the one of `held` stands, even if it has passed meanwhile.
    """
    moment = _held_moment(given, held)
    before = len(faults)
    ways = [way for way in WAYS if way in given]
    _check_one_way(ways, given, faults)
    zone = _zone(given.get("timezone", "UTC"), faults)
    fields = {
        name: given[name] for name in ("schedule", "interval_s", "timezone", "start_at", "end_at") if name in given
    }
    for way in ways:
        if given[way] is not None:
            fields.update(moment or _READ_WAY[way](given, zone, now, faults))
    readable = len(faults) == before and None not in given.values()
    if readable and ("start_at" in given or "end_at" in given or "schedule" in given):
        _check_fires(fields, now, faults)
    return fields


def moment_text(instant: datetime) -> str:
    """An instant as bodies carry it: RFC 3339 with Z, and a fraction only where there is one."""
    return instant.replace(tzinfo=None).isoformat() + "Z"


def _held_moment(given: Mapping[str, Any], held: job.JobSpec | None) -> dict[str, Any] | None:
    """The one-off fields of `held`, if the members name the very same moment."""
    if held is None or held.run_at is None or given.get("run_at") is None:
        return None
    if held.run_at_local is None:
        same = given["run_at"] == moment_text(held.run_at)
    else:
        written = (given["run_at"], given.get("timezone", "UTC"), given.get("fold"))
        same = written == (held.run_at_local, held.timezone, held.run_at_fold)
    return _moment_of(held) if same else None


def _moment_of(spec: job.JobSpec) -> dict[str, Any]:
    return {"run_at": spec.run_at, "run_at_local": spec.run_at_local, "run_at_fold": spec.run_at_fold}


def _check_one_way(ways: list[str], given: Mapping[str, Any], faults: Faults) -> None:
    if not ways:
        faults.add("", "needs exactly one of schedule, interval_s, run_at or run_in_s", "one_timing")
    elif len(ways) > 1:
        found = ", ".join(ways)
        faults.add("", f"needs exactly one of schedule, interval_s, run_at or run_in_s (given: {found})", "one_timing")
    elif "fold" in given and ways != ["run_at"]:
        faults.add("/fold", "goes only with a run_at that is given as local time")


def _zone(name: str | None, faults: Faults) -> str:
    """The zone to look at the rest with: UTC where the given one is refused."""
    if name is None:
        return "UTC"
    try:
        zones.zone(name)
    except errors.InvalidError as error:
        faults.take(error)
        return "UTC"
    return name


def _read_schedule(given: Mapping[str, Any], zone: str, now: datetime, faults: Faults) -> dict[str, Any]:
    try:
        cron.parse(given["schedule"])
    except errors.InvalidError as error:
        faults.take(error)
    return {}


def _read_interval(given: Mapping[str, Any], zone: str, now: datetime, faults: Faults) -> dict[str, Any]:
    return {}


def _read_run_at(given: Mapping[str, Any], zone: str, now: datetime, faults: Faults) -> dict[str, Any]:
    if given["run_at"] == NOW:
        return {"run_at": now}
    try:
        once = run_at.parse_run_at(given["run_at"], zone, given.get("fold"), now)
    except errors.InvalidError as error:
        faults.take(error)
        return {}
    return {"run_at": once.at, "run_at_local": once.local, "run_at_fold": once.fold}


def _read_run_in(given: Mapping[str, Any], zone: str, now: datetime, faults: Faults) -> dict[str, Any]:
    try:
        at = now + timedelta(seconds=given["run_in_s"])
    except OverflowError:
        at = datetime.max.replace(tzinfo=now.tzinfo)
    if at.year > run_at.LATEST_YEAR:
        faults.add("/run_in_s", f"leads beyond the end of {run_at.LATEST_YEAR}", "run_at_too_far")
    return {"run_at": at}


_READ_WAY = {
    "schedule": _read_schedule,
    "interval_s": _read_interval,
    "run_at": _read_run_at,
    "run_in_s": _read_run_in,
}


def _check_fires(fields: Mapping[str, Any], now: datetime, faults: Faults) -> None:
    start, end = fields.get("start_at"), fields.get("end_at")
    if start is not None and end is not None and start >= end:
        faults.add("/end_at", "is not after start_at", "crossed_bounds")
        return
    if (once := fields.get("run_at")) is not None:
        way: timing.Timing = timing.Once(once)
    elif (interval := fields.get("interval_s")) is not None:
        way = timing.Every(timedelta(seconds=interval), start or now)
    else:
        way = timing.Cron(fields["schedule"], fields.get("timezone") or "UTC")
    try:
        _check(schedule.Schedule(way, start, end), now)
    except errors.InvalidError as error:
        faults.take(error)


# Within one request many jobs share an expression, and all of them share the time.
@functools.lru_cache(maxsize=1024)
def _check(planned: schedule.Schedule, now: datetime) -> None:
    schedule.check(planned, now)
