"""Leases: who holds a run, how long at most, and who is told that it no longer does."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from horarium.domain.lease import CANCEL_GRACE_S, STOP_MARGIN_S, Leases
from horarium.domain.run import LiveRun, Phase
from tests.builders import a_run

LEASE_S = 15.0
TIMEOUT_S = 300.0


def knows(_: UUID) -> bool:
    return True


def granted(
    leases: Leases,
    *,
    worker: str = "w1",
    token: int = 1,
    now: float = 0.0,
    timeout_s: float = TIMEOUT_S,
    tenant: str = "a",
) -> LiveRun:
    run = a_run(tenant=tenant)
    leases.grant(run, worker, token, 1, timeout_s, now)
    return run


def ids(runs: list[LiveRun]) -> list[UUID]:
    return [run.id for run in runs]


def test_a_grant_is_a_lease() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases, worker="w1", token=7, now=100.0)
    assert (run.phase, run.worker_id, run.token, run.attempt) == (Phase.RUNNING, "w1", 7, 1)
    assert (run.lease_until, run.stop_at, run.started_at) == (115.0, 100.0 + TIMEOUT_S + STOP_MARGIN_S, 100.0)
    assert leases.get(run.id) is run
    assert (len(leases), leases.held_by("w1"), leases.held_by("w2")) == (1, 1, 0)
    assert list(leases.all()) == [run]


def test_an_end_ends_it() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases)
    assert leases.end(run.id) is run
    assert leases.end(run.id) is None
    assert (leases.get(run.id), len(leases), leases.held_by("w1")) == (None, 0, 0)
    assert leases._by_worker == {}


def test_a_heartbeat_extends_what_it_lists() -> None:
    leases = Leases(LEASE_S)
    listed, other = granted(leases), granted(leases)
    heard = leases.heartbeat("w1", [(listed.id, 1)], 10.0, knows)
    assert (heard.lost, heard.cancel) == ([], [])
    assert (listed.lease_until, other.lease_until) == (25.0, 15.0)
    assert ids(leases.overdue(15.0).lapsed) == [other.id]
    assert ids(leases.overdue(25.0).lapsed) == [listed.id, other.id]


@given(st.lists(st.floats(0.1, 14.9), max_size=60), st.floats(1, 200))
def test_no_heartbeat_extends_beyond_the_timeout_and_ten_seconds(pauses: list[float], timeout_s: float) -> None:
    leases, now = Leases(LEASE_S), 0.0
    run = granted(leases, timeout_s=timeout_s)
    for pause in pauses:
        now += pause
        leases.heartbeat("w1", [(run.id, 1)], now, knows)
        assert run.lease_until <= timeout_s + STOP_MARGIN_S
        assert bool(leases.overdue(now).timed_out) == (now >= timeout_s + STOP_MARGIN_S)
        assert leases.overdue(now).lapsed == []


def test_a_stale_token_is_lost_and_extends_nothing() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases, token=9)
    assert leases.heartbeat("w1", [(run.id, 8)], 10.0, knows).lost == [run.id]
    assert run.lease_until == 15.0


def test_a_run_of_another_worker_is_lost() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases, worker="w1")
    assert leases.heartbeat("w2", [(run.id, 1)], 10.0, knows).lost == [run.id]
    assert run.lease_until == 15.0


def test_what_memory_cannot_judge_is_neither_lost_nor_extended() -> None:
    """During a take-over: the row is not loaded yet, and the worker goes on."""
    leases = Leases(LEASE_S)
    unknown = a_run()
    assert leases.heartbeat("w1", [(unknown.id, 1)], 10.0, lambda run_id: run_id != unknown.id).lost == []


def test_a_worker_of_another_tenant_that_calls_itself_the_same_changes_nothing() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases, tenant="a")
    for now in (1.0, 2.0, 3.0):
        assert leases.heartbeat("w1", [(run.id, 1)], now, knows, "b").lost == [run.id]
        leases.heartbeat("w1", [], now, knows, "b")
    assert (run.lease_until, leases.unlisted_by("w1", "b"), leases.unlisted_by("w1", "a")) == (15.0, [], [])
    assert leases.heartbeat("w1", [(run.id, 1)], 4.0, knows, "a").lost == []
    assert run.lease_until == 19.0


def test_a_run_that_two_heartbeats_in_a_row_do_not_list_is_unknown_to_its_worker() -> None:
    leases = Leases(LEASE_S)
    run, kept = granted(leases), granted(leases)
    for now, unlisted in ((1.0, []), (2.0, [run])):
        leases.heartbeat("w1", [(kept.id, 1)], now, knows)
        assert leases.unlisted_by("w1") == unlisted
    leases.heartbeat("w1", [(run.id, 1)], 3.0, knows)
    assert leases.unlisted_by("w1") == []


def test_only_heartbeats_in_a_row_count() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases)
    for now, listed in enumerate([False, True, False, True, False]):
        leases.heartbeat("w1", [(run.id, 1)] if listed else [], float(now), knows)
        assert leases.unlisted_by("w1") == []


def test_a_heartbeat_that_was_on_its_way_during_the_grant_takes_nothing_back() -> None:
    leases = Leases(LEASE_S)
    leases.heartbeat("w1", [], 0.0, knows)
    granted(leases, now=0.5)
    leases.heartbeat("w1", [], 1.0, knows)
    assert leases.unlisted_by("w1") == []


def test_a_cancel_is_told_with_each_heartbeat() -> None:
    leases = Leases(LEASE_S)
    run, other = granted(leases), granted(leases)
    assert leases.request_cancel(run.id, 5.0)
    for now in (6.0, 7.0):
        assert leases.heartbeat("w1", [(run.id, 1), (other.id, 1)], now, knows).cancel == [run.id]


def test_a_cancel_that_does_not_stop_it_is_overdue_after_thirty_seconds() -> None:
    leases = Leases(LEASE_S)
    run = granted(leases)
    leases.request_cancel(run.id, 5.0)
    leases.request_cancel(run.id, 20.0)  # asking again does not begin anew
    for now in (10.0, 20.0, 30.0):
        leases.heartbeat("w1", [(run.id, 1)], now, knows)
    assert leases.overdue(5.0 + CANCEL_GRACE_S - 0.1).not_stopped == []
    found = leases.overdue(5.0 + CANCEL_GRACE_S)
    assert (ids(found.not_stopped), found.lapsed, found.timed_out) == ([run.id], [], [])


def test_a_run_that_is_not_here_cannot_be_cancelled() -> None:
    assert not Leases(LEASE_S).request_cancel(a_run().id, 0.0)


def test_each_overdue_run_is_named_once() -> None:
    """Cancelled, timed out and lapsed at once: what people asked for goes first."""
    leases = Leases(LEASE_S)
    run = granted(leases, timeout_s=1.0)
    leases.request_cancel(run.id, 0.0)
    found = leases.overdue(1000.0)
    assert (ids(found.not_stopped), found.timed_out, found.lapsed) == ([run.id], [], [])


def test_a_leader_grants_everyone_a_fresh_lease() -> None:
    leases = Leases(LEASE_S)
    runs = [granted(leases), granted(leases, worker="w2")]
    leases.heartbeat("w1", [], 1.0, knows)
    leases.renew_all(100.0)
    assert [run.lease_until for run in runs] == [115.0, 115.0]
    leases.heartbeat("w1", [], 101.0, knows)
    assert leases.unlisted_by("w1") == []
