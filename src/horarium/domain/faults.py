"""What an audit can find wrong, each kind with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Kind(StrEnum):
    """The kinds of faults."""

    MISSING_TICKS = "missing_ticks"
    DOUBLED_TICKS = "doubled_ticks"
    UNEXPECTED_TICKS = "unexpected_ticks"
    MISSING_TIMER = "missing_timer"
    OVERDUE_TIMER = "overdue_timer"
    STRAY_TIMER = "stray_timer"
    UNPLANNABLE = "unplannable"
    RUN_WITHOUT_JOB = "run_without_job"
    LIVE_AND_ENDED = "live_and_ended"
    STUCK_LEASE = "stuck_lease"
    LETTER_WITHOUT_RUN = "letter_without_run"
    SHARD_WITHOUT_LEADER = "shard_without_leader"


ADVICE = {
    Kind.MISSING_TICKS: "report it; run them again with a manual run where that is wanted",
    Kind.DOUBLED_TICKS: "report it",
    Kind.UNEXPECTED_TICKS: "report it; was a row changed by hand?",
    Kind.MISSING_TIMER: "--repair arms it again, from the first tick that is not accounted for",
    Kind.OVERDUE_TIMER: "is its shard led, and does the database answer?",
    Kind.STRAY_TIMER: "--repair takes it away",
    Kind.UNPLANNABLE: "change the schedule or its zone",
    Kind.RUN_WITHOUT_JOB: "--repair ends it as cancelled if it waits",
    Kind.LIVE_AND_ENDED: "--repair takes the live row away; what ended stays",
    Kind.STUCK_LEASE: "restart the node that leads its shard, and report it",
    Kind.LETTER_WITHOUT_RUN: "report it; discard the letter",
    Kind.SHARD_WITHOUT_LEADER: "start a node: `horarium serve`",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it should be. `first` to `last` are nominal times, `number` of them; others where they apply."""

    kind: Kind
    text: str
    shard: int | None = None
    tenant_id: str | None = None
    job_id: UUID | None = None
    run_id: UUID | None = None
    first: datetime | None = None
    last: datetime | None = None
    number: int = 1
