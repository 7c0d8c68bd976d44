"""How attempts end: what counts, what comes too late, and that one bad report is one worker's trouble alone."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from horarium import errors
from horarium.domain import outcome as outcomes
from horarium.domain.outcome import Outcome
from horarium.events import Name
from horarium.services.completer import Completer
from horarium.services.endings import Plain, Report, Taken, clean
from horarium.store import run_logs, runs
from tests.builders import Core, Started, wanted

BOOM = {"class": "ValueError", "message": "boom 17", "traceback": "Traceback …"}
NEVER_AGAIN = {"max_attempts": 1}


def history_of(row: asyncpg.Record | None) -> dict[str, Any]:
    assert row is not None
    return dict(row)


async def test_a_success_moves_the_run_to_history(core: Core) -> None:
    held = await core.started(timeout_s=60, payload='{"a": 1}')
    taken = await core.completer.report(
        [held.report(result='{"big": 12345678901234567890}', progress='{"fraction": 1}')]
    )
    assert taken.accepted == [held.run_id]
    assert taken.lost == []
    ended = history_of(await core.ended(held.run_id))
    assert (ended["state"], ended["attempt"], ended["worker_id"]) == ("succeeded", 1, "w1")
    assert ended["fencing_token"] == held.token
    assert ended["result"] == '{"big": 12345678901234567890}'
    assert await core.row(held.run_id) is None
    assert held.run_id not in core.leader.ready
    assert core.told.total(Name.RUNS_SUCCEEDED) == 1


async def test_a_stale_token_is_refused_and_changes_nothing(core: Core) -> None:
    held = await core.started()
    stale = held.report()._replace(token=held.token - 1)
    for outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.DISCARD, Outcome.SNOOZE, Outcome.INTERRUPTED):
        taken = await core.completer.report([stale._replace(outcome=outcome)])
        assert taken.lost == [held.run_id], outcome
        assert taken.accepted == []
    row = history_of(await core.row(held.run_id))
    assert (row["state"], row["fencing_token"]) == ("running", held.token)
    assert core.leader.ready.leases.get(held.run_id) is not None
    assert core.told.total(Name.REPORTS_REFUSED) == 5


async def test_a_run_that_never_was_is_lost(core: Core) -> None:
    made = await core.job()
    unknown = made.by_hand(core.clock.now()).id
    assert (await core.completer.report([Report(unknown, 7, Outcome.SUCCEEDED)])).lost == [unknown]


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.DISCARD, Outcome.SNOOZE])
async def test_a_repeated_report_is_accepted_again(core: Core, outcome: Outcome) -> None:
    held = await core.started()
    report = held.report(outcome, retry_in=timedelta(hours=1))
    for _ in range(2):
        assert (await core.completer.report([report])).accepted == [held.run_id]
    assert await core.fetchval("SELECT count(*) FROM history") + await core.fetchval("SELECT count(*) FROM runs") == 1


async def test_the_same_run_twice_in_one_report_ends_once(core: Core) -> None:
    held = await core.started()
    first, second = held.report(result='"first"'), held.report(Outcome.FAILED, error=BOOM)
    taken = await core.completer.report([first, second, first])
    assert taken.lost == []
    assert history_of(await core.ended(held.run_id))["result"] == '"first"'
    assert core.told.total(Name.RUNS_SUCCEEDED) == 1
    assert core.told.total(Name.RUNS_RETRIED) == 0


async def test_mixed_outcomes_go_in_one_report(core: Core) -> None:
    succeeded, failed, discarded = await core.started(), await core.started(), await core.started()
    snoozed, interrupted = await core.started(), await core.started()
    taken = await core.completer.report(
        [
            succeeded.report(),
            failed.report(Outcome.FAILED, error=BOOM),
            discarded.report(Outcome.DISCARD, error=BOOM),
            snoozed.report(Outcome.SNOOZE, retry_in=timedelta(hours=1)),
            interrupted.report(Outcome.INTERRUPTED),
        ]
    )
    assert len(taken.accepted) == 5
    assert history_of(await core.ended(succeeded.run_id))["state"] == "succeeded"
    assert history_of(await core.ended(discarded.run_id))["state"] == "dead"
    rows = {held: history_of(await core.row(held.run_id)) for held in (failed, snoozed, interrupted)}
    assert {row["state"] for row in rows.values()} == {"waiting"}
    assert [rows[held]["attempt"] for held in (failed, snoozed, interrupted)] == [1, 0, 0]
    assert [rows[held]["snoozes"] for held in (failed, snoozed, interrupted)] == [0, 1, 0]
    assert rows[snoozed]["ready_at"] == core.clock.now() + timedelta(hours=1)
    assert core.told.total(Name.RUNS_RETRIED) == 1
    assert core.told.total(Name.RUNS_INTERRUPTED) == 2
    assert core.told.total(Name.RUNS_DEAD) == 1


async def test_a_failure_waits_for_its_back_off_and_is_handed_out_again(core: Core) -> None:
    held = await core.started(retry={"base_s": 10, "jitter": 0})
    await core.completer.report([held.report(Outcome.FAILED, error=BOOM)])
    row = history_of(await core.row(held.run_id))
    assert row["ready_at"] == core.clock.now() + timedelta(seconds=10)
    assert (row["worker_id"], row["started_at"], row["lease_expires_at"]) == (None, None, None)
    (failure,) = json.loads(row["failures"])
    assert (failure["attempt"], failure["worker_id"], failure["outcome"], failure["error"]) == (1, "w1", "failed", BOOM)
    assert await core.lease_now() == []
    core.pass_time(10)
    (lease,) = await core.lease("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(held.run_id), 2)
    assert lease["fencing_token"] > held.token


async def test_an_interrupted_run_goes_to_the_front_and_uses_no_attempt(core: Core) -> None:
    held = await core.started()
    made = await core.job(priority=9)
    await core.make(made.by_hand(core.clock.now()))
    await core.completer.report([held.report(Outcome.INTERRUPTED)])
    (lease,) = await core.lease("w2", slots=1)
    assert (lease["run_id"], lease["attempt"]) == (str(held.run_id), 1)


async def test_attempts_used_up_make_a_dead_letter(core: Core) -> None:
    held = await core.started(retry=NEVER_AGAIN, tenant_id="acme", queue="mail")
    await core.completer.report([held.report(Outcome.FAILED, error=BOOM)])
    ended = history_of(await core.ended(held.run_id))
    assert (ended["state"], ended["attempt"], ended["error"]) == ("dead", 1, "ValueError: boom 17")
    assert len(json.loads(ended["failures"])) == 1
    letter = history_of(await core.fetchrow("SELECT * FROM dead_letters WHERE run_id = $1", held.run_id))
    assert (letter["tenant_id"], letter["queue"], letter["shard"]) == ("acme", "mail", held.job.shard)
    assert (letter["attempts"], letter["error"]) == (1, "ValueError: boom 17")
    assert letter["fingerprint"] == outcomes.fingerprint("work", "ValueError", "boom 42")


async def test_the_policy_that_a_run_carries_is_stronger_than_its_jobs(core: Core) -> None:
    made = await core.job(retry={"max_attempts": 9})
    await core.make(made.by_hand(core.clock.now(), retry=json.dumps(NEVER_AGAIN)))
    (lease,) = await core.lease()
    held = Started(UUID(lease["run_id"]), lease["fencing_token"], made)
    await core.completer.report([held.report(Outcome.FAILED)])
    assert history_of(await core.ended(held.run_id))["state"] == "dead"


async def test_a_policy_with_members_of_a_newer_version_is_read(core: Core) -> None:
    held = await core.started(retry={"max_attempts": 1, "mood": "patient"})
    assert (await core.completer.report([held.report(Outcome.FAILED)])).accepted == [held.run_id]
    assert history_of(await core.ended(held.run_id))["state"] == "dead"


async def test_a_run_that_was_asked_to_stop_is_cancelled_when_it_fails(core: Core) -> None:
    held = await core.started()
    async with core.database.connection() as connection:
        await runs.request_cancel(connection, [held.run_id], "ann")
    await core.completer.report([held.report(Outcome.FAILED, error=BOOM)])
    ended = history_of(await core.ended(held.run_id))
    assert (ended["state"], ended["error"]) == ("cancelled", "cancelled by ann")
    assert core.told.total(Name.RUNS_CANCELLED) == 1


async def test_a_run_that_was_asked_to_stop_and_succeeds_has_succeeded(core: Core) -> None:
    held = await core.started()
    async with core.database.connection() as connection:
        await runs.request_cancel(connection, [held.run_id], "ann")
    await core.completer.report([held.report()])
    assert history_of(await core.ended(held.run_id))["state"] == "succeeded"


async def test_errors_are_trimmed_and_cleaned(core: Core) -> None:
    held = await core.started(retry=NEVER_AGAIN)
    error = {"class": "E\x00" * 500, "message": "m\x00\ud800" * 9000, "traceback": "t\x00" * 9000}
    await core.completer.report([held.report(Outcome.FAILED, error=error)])
    ended = history_of(await core.ended(held.run_id))
    (failure,) = json.loads(ended["failures"])
    assert len(failure["error"]["class"]) == 200
    assert len(failure["error"]["message"]) == 4000
    assert len(failure["error"]["traceback"]) == 8192
    assert len(ended["error"]) == 2000
    assert "\x00" not in ended["error"]


async def test_the_last_fifty_failures_are_kept(core: Core) -> None:
    held = await core.started(retry={"max_attempts": 60, "base_s": 0})
    before = [{"attempt": n, "outcome": "failed"} for n in range(1, 51)]
    await core.fetch("UPDATE runs SET attempt = 51, failures = $2 WHERE id = $1", held.run_id, json.dumps(before))
    await core.completer.report([held.report(Outcome.FAILED, error=BOOM)])
    kept = json.loads(history_of(await core.row(held.run_id))["failures"])
    assert [failure["attempt"] for failure in kept] == [*range(2, 51), 51]


async def test_a_result_that_the_database_refuses_does_not_spoil_the_others(core: Core) -> None:
    held = [await core.started() for _ in range(3)]
    results = ['{"ok": 1}', '{"nul": "\\u0000', '{"ok": 3}']
    taken = await core.completer.report([run.report(result=text) for run, text in zip(held, results, strict=True)])
    assert set(taken.accepted) == {run.run_id for run in held}
    kept = [history_of(await core.ended(run.run_id))["result"] for run in held]
    assert kept == ['{"ok": 1}', None, '{"ok": 3}']


async def test_reports_that_arrive_during_a_commit_share_the_next_one(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = [await core.started() for _ in range(6)]
    commits: list[int] = []
    take_in = Completer._take_in

    async def counted(self: Completer, batch: list[Any]) -> Any:
        commits.append(len(batch))
        return await take_in(self, batch)

    monkeypatch.setattr(Completer, "_take_in", counted)
    taken = await asyncio.gather(*(core.completer.report([run.report()]) for run in held))
    assert [answer.accepted for answer in taken] == [[run.run_id] for run in held]
    assert sum(commits) == 6
    assert commits == [1, 1, 4]


async def test_a_database_that_cannot_be_asked_is_told_to_the_caller(core: Core) -> None:
    held = await core.started()
    await core.database.close()
    with pytest.raises(errors.UnavailableError):
        await core.completer.report([held.report()])
    assert core.leader.ready.leases.get(held.run_id) is not None
    await core.database.open()
    assert (await core.completer.report([held.report()])).accepted == [held.run_id]


async def test_log_lines_are_kept_with_the_run(core: Core) -> None:
    held = await core.started()
    line = run_logs.LogRow(held.run_id, 1, 1, core.clock.now(), "info", "hello", '{"n": 1}')
    await core.completer.report([held.report()], [line])
    kept = await core.fetch("SELECT * FROM run_logs")
    assert [(row["run_id"], row["seq"], row["message"], row["fields"]) for row in kept] == [
        (held.run_id, 1, "hello", '{"n": 1}')
    ]


async def test_runs_given_back_are_handed_out_first(core: Core) -> None:
    held = await core.started()
    await core.completer.give_back([(held.run_id, held.token)])
    (lease,) = await core.lease("w2")
    assert (lease["run_id"], lease["attempt"]) == (str(held.run_id), 1)


async def test_runs_that_nobody_can_take_are_dead_letters(core: Core) -> None:
    held = await core.started()
    await core.completer.refuse([(held.run_id, held.token)], "too large")
    assert history_of(await core.ended(held.run_id))["error"] == "Refused: too large"
    assert await core.fetchval("SELECT count(*) FROM dead_letters") == 1


async def test_what_memory_counted_goes_when_the_run_ends(core: Core) -> None:
    ended: list[Name] = []
    core.completer.on_ended = lambda run, name: ended.append(name)
    first, second = await core.started(), await core.started()
    core.leader.progress[first.run_id] = core.leader.progress[second.run_id] = '{"fraction": 0.5}'
    await core.completer.report([first.report(), second.report(Outcome.FAILED)])
    assert sorted(ended) == sorted([Name.RUNS_SUCCEEDED, Name.RUNS_RETRIED])
    assert core.leader.progress == {}
    assert len(core.leader.ready.leases) == 0


async def test_a_stale_worker_beside_the_present_one_in_one_batch(core: Core) -> None:
    """Both report a failure while a commit is under way, so both are in the next batch."""
    held = await core.started(retry={"base_s": 0, "jitter": 0})
    await core.completer.report([held.report(Outcome.FAILED)])
    (lease,) = await core.lease("w2")
    present = held.report(Outcome.DISCARD)._replace(token=lease["fencing_token"])
    stale = held.report(Outcome.DISCARD)
    for pair in ([present, stale], [stale, present]):
        taken = await core.completer.report(pair)
        assert taken.accepted == [held.run_id]
        assert taken.lost == [held.run_id]
    assert history_of(await core.ended(held.run_id))["state"] == "dead"


def test_text_is_cleaned_of_what_postgresql_cannot_keep() -> None:
    assert clean("a\x00b\ud800c") == "a\ufffdb?c"


async def test_another_queue_is_not_touched(core: Core) -> None:
    mine, other = await core.started(queue="a"), await core.started(queue="b")
    await core.completer.report([mine.report()])
    assert await core.row(other.run_id) is not None
    assert await core.lease_now(want=wanted("b")) == []


async def test_plain_successes_are_columns(core: Core) -> None:
    held = [await core.started() for _ in range(3)]
    plain = Plain([each.run_id for each in held], [each.token for each in held])
    assert await core.completer.report([], plain=plain) == Taken(plain.ids, [])
    assert await core.fetchval("SELECT count(*) FROM history WHERE state = 'succeeded'") == 3
    assert all(each.run_id not in core.leader.ready for each in held)
    assert core.told.total(Name.RUNS_SUCCEEDED) == 3


async def test_of_plain_successes_the_stale_ones_are_told_apart(core: Core) -> None:
    """Beside others of the same commit: a repeat is accepted again, a stale token and a run that nobody knows are lost."""
    before, good, stale = [await core.started() for _ in range(3)]
    await core.completer.report([before.report()])
    nobodys = UUID(int=7)
    tokens = [before.token, good.token, stale.token - 1, good.token, 1]
    plain = Plain([before.run_id, good.run_id, stale.run_id, good.run_id, nobodys], tokens)
    taken = await core.completer.report([], plain=plain)
    assert taken == Taken([before.run_id, good.run_id, good.run_id], [stale.run_id, nobodys])
    assert stale.run_id in core.leader.ready
    assert core.told.total(Name.RUNS_SUCCEEDED) == 2


async def test_plain_and_other_reports_share_a_commit(core: Core) -> None:
    held = [await core.started() for _ in range(4)]
    reports = [held[1].report(result="1"), held[2].report(Outcome.FAILED)]
    plain = Plain([held[0].run_id], [held[0].token])
    both = await asyncio.gather(
        core.completer.report(reports, plain=plain),
        core.completer.report([held[3].report()], plain=Plain([held[3].run_id], [held[3].token - 1])),
    )
    assert (set(both[0].accepted), both[0].lost) == ({each.run_id for each in held[:3]}, [])
    assert both[1] == Taken([held[3].run_id], [held[3].run_id])
