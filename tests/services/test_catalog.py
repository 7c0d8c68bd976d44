"""Creating, reading, listing and deleting jobs. What edits and pauses do stands in files of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from horarium import errors
from horarium.domain import ids, job, job_parsing
from horarium.domain.states import JobStatus
from horarium.services.catalog import Filter
from tests.services.catalog_world import NOON, STRANGER, WHO, World, instant, world


@pytest.fixture
async def at_work(emptied_url: str) -> AsyncIterator[World]:
    async with world(emptied_url) as made:
        yield made


async def test_a_recurring_job_gets_a_timer_and_leaders_are_told(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *", timezone="Asia/Kolkata", priority=7, overlap="skip")
    timer = await at_work.timer(made)
    assert timer is not None
    assert timer["scheduled_for"] == instant("2026-12-01T20:30:00Z") == timer["due_at"]
    assert (timer["priority"], timer["target_key"], timer["queue"]) == (7, "work", "default")
    assert timer["policy_key"] == "o=skip"
    assert at_work.heard.timers == [(made.shard, timer["due_at"])]
    assert ids.shard_of(made.id) == made.shard


async def test_jitter_delays_the_due_time_and_not_the_nominal_time(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *", jitter_s=3600)
    timer = await at_work.timer(made)
    assert timer is not None
    assert timer["scheduled_for"] == instant("2026-12-02T02:00:00Z")
    assert timedelta(0) < timer["due_at"] - timer["scheduled_for"] < timedelta(hours=1)


async def test_a_one_off_that_is_due_has_its_run_at_once_and_no_timer(at_work: World) -> None:
    made = await at_work.create(name=None, run_at="now", payload={"user": 7})
    (run,) = await at_work.rows("runs")
    assert run["id"] == ids.tick_run_id(made.id, made.shard, NOON)
    assert (run["scheduled_for"], run["ready_at"], run["trigger"]) == (NOON, NOON, "schedule")
    assert await at_work.timer(made) is None
    assert [row.id for row in at_work.heard.added] == [run["id"]]


async def test_a_one_off_30_seconds_late_runs_at_once(at_work: World) -> None:
    """agronholm/apscheduler#389: a job whose only time had passed was stored and never ran."""
    made = await at_work.create(run_at="2026-12-01T11:59:30Z")
    (run,) = await at_work.rows("runs", made)
    assert run["scheduled_for"] == instant("2026-12-01T11:59:30Z") == run["ready_at"]


async def test_run_in_s_counts_from_the_clock(at_work: World) -> None:
    made = await at_work.create(run_in_s=7200.5)
    assert await at_work.next_time(made) == NOON + timedelta(seconds=7200.5)
    assert await at_work.rows("runs") == []


async def test_a_run_60_days_ahead_waits_in_the_store(at_work: World) -> None:
    """openclaw/openclaw#11486: a run far ahead overflowed a timer and started at once (N3)."""
    made = await at_work.create(run_at="2027-01-30T12:00:00Z")
    await at_work.fire()
    assert await at_work.next_time(made) == instant("2027-01-30T12:00:00Z")
    assert await at_work.rows("runs") == []


async def test_a_start_in_the_near_past_is_no_fire(at_work: World) -> None:
    """django-celery-beat#912: a cron job with a start in the near past ran at once (B1)."""
    at_work.at("2026-12-01T14:00:00+00:00")
    made = await at_work.create(schedule="0 15 * * *", start_at="2026-12-01T13:58:00Z")
    assert await at_work.next_time(made) == instant("2026-12-01T15:00:00Z")
    assert await at_work.rows("runs") == []


async def test_an_interval_counts_from_its_start(at_work: World) -> None:
    """rq/rq-scheduler#269: a 60-second job slipped by a second a turn (I2)."""
    made = await at_work.create(interval_s=60, start_at="2026-12-01T11:00:07Z")
    assert await at_work.next_time(made) == instant("2026-12-01T12:00:07Z")
    later = await at_work.create(name="later", interval_s=60, start_at="2026-12-02T02:02:00Z")
    assert await at_work.next_time(later) == instant("2026-12-02T02:02:00Z")
    unanchored = await at_work.create(name="unanchored", interval_s=60)
    assert await at_work.next_time(unanchored) == NOON + timedelta(seconds=60)


async def test_a_row_comes_back_as_the_job_that_went_in(at_work: World) -> None:
    made = await at_work.create(
        name="everything",
        description="two\nlines",
        owner="billing@example.com",
        tags=["finance", "nightly"],
        managed_by="manifest:billing",
        target={"http": {"url": "https://example.com/hook", "headers": {"X-Team": "b"}, "secret": "s3cret"}},
        payload={"id": 3889108265204450030, "z": 1, "a": [1.5, None, "é"]},
        queue="billing",
        priority=9,
        run_at="2027-10-31T03:30:00",
        fold="second",
        timezone="Europe/Riga",
        start_at="2027-01-01T00:00:00Z",
        end_at="2027-12-31T00:00:00+02:00",
        jitter_s=30,
        misfire="run_all",
        misfire_grace_s=5,
        catch_up_window_s=60,
        max_catch_up=3,
        overlap="queue_one",
        retry={"max_attempts": 9, "backoff": "linear", "base_s": 0.5, "retry_window_s": 3600},
        timeout_s=86_400,
        expect={"within_s": 3600},
    )
    stored = (await at_work.view(made)).job
    assert stored == made
    assert stored.spec.run_at == instant("2027-10-31T01:30:00Z")
    plain = await at_work.create(schedule="@daily")
    assert (await at_work.view(plain)).job == plain


async def test_integers_of_a_payload_come_back_digit_for_digit(at_work: World) -> None:
    """contribsys/faktory#395: a 64-bit integer in the payload came back rounded (N4)."""
    raw = '{"id":3889108265204450030,"big":9007199254740993,"f":1.10,"huge":123456789012345678901234567890}'
    body = job_parsing.read_body(f'{{"name":"n","target":{{"handler":"w"}},"run_at":"now","payload":{raw}}}'.encode())
    made = await at_work.catalog.create(WHO, job_parsing.parse(body, now=NOON))
    assert (await at_work.view(made)).job.spec.payload == raw


@pytest.mark.parametrize("name", ["отчёт", "日報 🗓", "a.b", "a/b", "x" * 200])
async def test_names_of_any_script_are_stored_and_listed(at_work: World, name: str) -> None:
    """dkron-io/dkron#604: a name in another script, or with a dot, gave a 500 (N4)."""
    made = await at_work.create(name=name, schedule="@daily")
    assert [view.job.id for view in await at_work.catalog.list(WHO, Filter(name=name))] == [made.id]
    assert (await at_work.catalog.get(WHO, name)).job.spec.name == name


async def test_two_spellings_of_one_name_collide(at_work: World) -> None:
    """dkron-io/dkron#604: names are kept in NFC, so that e and an accent are é."""
    await at_work.create(name="caf\u00e9", schedule="@daily")
    with pytest.raises(errors.ConflictError) as raised:
        await at_work.create(name="cafe\u0301", schedule="@daily")
    assert raised.value.code == "name_taken"


async def test_a_taken_name_stores_nothing(at_work: World) -> None:
    first = await at_work.create(schedule="@daily")
    with pytest.raises(errors.ConflictError, match="nightly"):
        await at_work.create(run_at="now")
    assert await at_work.rows("runs") == []
    assert [row["id"] for row in await at_work.rows("jobs")] == [first.id]
    assert len(await at_work.audited()) == 1


async def test_a_name_is_taken_in_its_own_tenant_only(at_work: World) -> None:
    await at_work.create(schedule="@daily")
    theirs = await at_work.catalog.create(STRANGER, at_work.spec(name="nightly", schedule="@daily"))
    assert theirs.tenant_id == "other"


async def test_nobody_sees_or_touches_the_job_of_another_tenant(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    catalog = at_work.catalog
    for call in (
        lambda ref: catalog.get(STRANGER, ref),
        lambda ref: catalog.patch(STRANGER, ref, {"priority": 1}),
        lambda ref: catalog.delete(STRANGER, ref),
        lambda ref: catalog.pause(STRANGER, ref),
        lambda ref: catalog.resume(STRANGER, ref),
        lambda ref: catalog.next(STRANGER, ref),
        lambda ref: catalog.skips(STRANGER, ref),
        lambda ref: at_work.manual.run_now(STRANGER, ref),
    ):
        for ref in (made.id, "nightly"):
            with pytest.raises(errors.NotFoundError):
                await call(ref)
    assert await catalog.list(STRANGER, Filter()) == []
    assert (await at_work.view(made)).job == made


async def test_every_change_is_in_the_audit_and_secrets_are_not(at_work: World) -> None:
    target = {"http": {"url": "https://example.com", "secret": "s3cret", "headers": {"Authorization": "Bearer t0ken"}}}
    made = await at_work.create(schedule="@daily", target=target)
    await at_work.patch(made, priority=9)
    await at_work.catalog.pause(WHO, made.id, "deploy")
    await at_work.catalog.resume(WHO, made.id)
    await at_work.catalog.delete(WHO, made.id)
    lines = await at_work.audited()
    assert [line[:2] for line in lines] == [
        (action, "job") for action in ("create", "update", "pause", "resume", "delete")
    ]
    assert lines[1][2]["priority"] == 5
    assert lines[1][3]["priority"] == 9
    assert lines[2][3] == {"status": "paused", "reason": "deploy"}
    assert lines[0][3]["target"]["http"] == {
        "url": "https://example.com", "secret": "***", "headers": {"Authorization": "***"}
    }  # fmt: skip
    assert "s3cret" not in str(lines)
    assert "t0ken" not in str(lines)
    (row, *_) = await at_work.rows("audit")
    assert (row["actor"], row["remote"], row["request_id"]) == ("ada", "127.0.0.1", "req-1")
    stored = (await at_work.view(made)).job.spec.target
    assert stored["http"]["secret"] == "s3cret"


async def test_a_mask_is_no_secret_of_a_new_job(at_work: World) -> None:
    with pytest.raises(errors.InvalidError) as raised:
        await at_work.create(schedule="@daily", target={"http": {"url": "https://example.com", "secret": "***"}})
    assert raised.value.faults[0].pointer == "/target/http/secret"
    assert await at_work.rows("jobs") == []


async def test_create_with_only_new_false_replaces(at_work: World) -> None:
    first = await at_work.create(schedule="@daily")
    second = await at_work.catalog.create(WHO, at_work.spec(name="nightly", schedule="@hourly"), only_new=False)
    assert (second.id, second.version, second.spec.schedule) == (first.id, 2, "@hourly")


async def test_the_view_names_the_coming_times_and_the_latest_run(at_work: World) -> None:
    made = await at_work.create(schedule="0 * * * *")
    view = await at_work.view(made)
    assert view.status is JobStatus.ACTIVE
    assert view.next_run_at == instant("2026-12-01T13:00:00Z")
    assert view.next_runs == [instant(f"2026-12-01T{hour}:00:00Z") for hour in range(13, 18)]
    assert view.last_run is None
    run_id = await at_work.manual.run_now(WHO, made.id)
    await at_work.start(run_id)
    running = (await at_work.view(made)).last_run
    assert running is not None
    assert (running.run_id, running.state, running.started_at, running.ended_at) == (run_id, "running", NOON, None)
    await at_work.end(run_id)
    ended = (await at_work.view(made)).last_run
    assert ended is not None
    assert (ended.run_id, ended.state) == (run_id, "succeeded")
    assert ended.ended_at is not None


async def test_ticks_made_ahead_of_their_time_are_still_the_next_run(at_work: World) -> None:
    made = await at_work.create(interval_s=4)
    await at_work.fire()
    assert await at_work.next_time(made) == NOON + timedelta(seconds=12)
    assert (await at_work.view(made)).next_run_at == NOON + timedelta(seconds=4)
    at_work.later(seconds=4)
    view = await at_work.view(made)
    assert view.next_runs[:2] == [NOON + timedelta(seconds=8), NOON + timedelta(seconds=12)]


async def test_a_one_off_of_which_nothing_is_left_is_finished(at_work: World) -> None:
    made = await at_work.create(run_at="now")
    view = await at_work.view(made)
    assert (view.status, view.next_run_at) == (JobStatus.ACTIVE, NOON)
    (run,) = await at_work.rows("runs", made)
    await at_work.start(run["id"])
    assert (await at_work.view(made)).status is JobStatus.ACTIVE
    await at_work.end(run["id"])
    view = await at_work.view(made)
    assert (view.status, view.next_run_at, view.next_runs) == (JobStatus.FINISHED, None, [])
    assert [each.job.id for each in await at_work.catalog.list(WHO, Filter(status="finished"))] == [made.id]
    assert await at_work.catalog.list(WHO, Filter(status="active")) == []


async def test_next_previews_also_what_is_paused(at_work: World) -> None:
    made = await at_work.create(schedule="0 9 29 2 *")
    await at_work.catalog.pause(WHO, made.id)
    assert await at_work.catalog.next(WHO, made.id, 2) == [
        instant("2028-02-29T09:00:00Z"), instant("2032-02-29T09:00:00Z")
    ]  # fmt: skip
    once = await at_work.create(name="once", run_at="2027-01-01T00:00:00Z")
    assert await at_work.catalog.next(WHO, once.id, 5) == [instant("2027-01-01T00:00:00Z")]


async def test_the_list_is_narrowed_down_by_each_member(at_work: World) -> None:
    a = await at_work.create(name="a.one", schedule="@daily", queue="q", tags=["x", "y"], owner="o", managed_by="m")
    b = await at_work.create(name="a.two", schedule="@hourly")
    c = await at_work.create(name="b_one", schedule="@hourly")
    await at_work.catalog.pause(WHO, c.id)

    async def found(**members: object) -> list[job.Job]:
        return [view.job for view in await at_work.catalog.list(WHO, Filter(**members))]  # type: ignore[arg-type]

    assert [each.spec.name for each in await found()] == sorted(
        [a.spec.name, b.spec.name, c.spec.name], key=lambda name: {"a.one": a.id, "a.two": b.id, "b_one": c.id}[name or ""],
        reverse=True,
    )  # fmt: skip
    assert (
        await found(queue="q") == await found(tag="y") == await found(owner="o") == await found(managed_by="m") == [a]
    )
    assert {each.spec.name for each in await found(name="a.*")} == {"a.one", "a.two"}
    assert await found(name="a.one") == [a]
    assert await found(name="a.on") == []
    assert [each.id for each in await found(status="paused")] == [c.id]
    assert [each.id for each in await found(due_before=NOON + timedelta(hours=2))] == [b.id]
    assert await found(tag="z") == []


async def test_pages_follow_each_other_without_a_gap(at_work: World) -> None:
    for number in range(7):
        at_work.later(seconds=1)
        await at_work.create(name=f"job-{number}", schedule="@daily")
    seen: list[str | None] = []
    last = None
    while page := await at_work.catalog.list(WHO, Filter(), last, 3):
        seen += [view.job.spec.name for view in page]
        last = page[-1].job.id
    assert seen == [f"job-{number}" for number in reversed(range(7))]


async def test_delete_takes_back_what_is_ahead_and_cancels_what_waits(at_work: World) -> None:
    made = await at_work.create(interval_s=4)
    await at_work.fire()
    at_work.later(seconds=4)
    first, second, *_ = await at_work.rows("runs", made)
    by_hand = await at_work.manual.run_now(WHO, made.id)
    await at_work.start(second["id"])
    await at_work.catalog.delete(WHO, made.id)
    assert [row["id"] for row in await at_work.rows("runs", made)] == [second["id"]]
    ended = {row["id"]: (row["state"], row["error"]) for row in await at_work.rows("history", made)}
    assert ended == {first["id"]: ("cancelled", "deleted by ada"), by_hand: ("cancelled", "deleted by ada")}
    assert await at_work.timer(made) is None
    assert first["id"] in at_work.heard.removed


async def test_a_deleted_job_is_found_by_its_id_and_its_name_is_free(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    await at_work.catalog.delete(WHO, "nightly")
    view = await at_work.view(made)
    assert (view.status, view.next_run_at, view.job.deleted_at) == (JobStatus.CANCELLED, None, NOON)
    with pytest.raises(errors.NotFoundError):
        await at_work.catalog.get(WHO, "nightly")
    assert await at_work.catalog.list(WHO, Filter()) == []
    assert [each.job.id for each in await at_work.catalog.list(WHO, Filter(status="cancelled"))] == [made.id]
    again = await at_work.create(schedule="@daily")
    assert again.id != made.id
    await at_work.catalog.delete(WHO, made.id)
    for change in (
        at_work.patch(made, priority=1),
        at_work.catalog.pause(WHO, made.id),
        at_work.catalog.resume(WHO, made.id),
    ):
        with pytest.raises(errors.ConflictError):
            await change
    assert [line[0] for line in await at_work.audited()] == ["create", "delete", "create"]


async def test_delete_writes_down_what_was_missed(at_work: World) -> None:
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=3)
    await at_work.catalog.delete(WHO, made.id)
    assert await at_work.skipped(made) == [
        ("deleted", instant("2026-12-01T12:01:00Z"), instant("2026-12-01T12:03:00Z"), 3)
    ]


async def test_a_job_that_is_deleted_between_listing_and_firing_makes_no_run(at_work: World) -> None:
    """NousResearch/hermes-agent#82650: a job deleted after it was listed as due still ran (I3)."""
    made = await at_work.create(schedule="* * * * *")
    at_work.later(minutes=1)
    await asyncio.gather(at_work.catalog.delete(WHO, made.id), at_work.fire())
    await at_work.fire()
    assert [row["state"] for row in await at_work.rows("runs", made)] == []
    assert await at_work.timer(made) is None


async def test_an_old_version_is_refused(at_work: World) -> None:
    made = await at_work.create(schedule="@daily")
    changed = await at_work.catalog.patch(WHO, made.id, {"priority": 6}, if_match=1)
    assert changed.version == 2
    spec = at_work.spec(name="nightly", schedule="@hourly")
    for change in (
        at_work.catalog.patch(WHO, made.id, {"priority": 7}, 1),
        at_work.catalog.put(WHO, "nightly", spec, if_match=1),
        at_work.catalog.delete(WHO, made.id, 1),
        at_work.catalog.put(WHO, "nobody", spec, if_match=1),
        at_work.catalog.put(WHO, "nightly", spec, only_new=True),
    ):
        with pytest.raises(errors.StaleVersionError):
            await change
    assert (await at_work.view(made)).job == changed
    await at_work.catalog.delete(WHO, made.id, 2)


async def test_putting_the_same_again_changes_nothing(at_work: World) -> None:
    spec = at_work.spec(name="nightly", schedule="0 2 * * *")
    made, is_new = await at_work.catalog.put(WHO, "nightly", spec)
    again, is_new_again = await at_work.catalog.put(WHO, "nightly", spec)
    assert (is_new, is_new_again) == (True, False)
    assert again == made
    assert len(await at_work.audited()) == 1


async def test_put_sets_back_what_is_left_out_and_a_pause_survives(at_work: World) -> None:
    made = await at_work.create(schedule="0 2 * * *", priority=9, tags=["x"])
    await at_work.catalog.pause(WHO, made.id)
    put, _ = await at_work.catalog.put(WHO, "nightly", at_work.spec(name="nightly", schedule="0 3 * * *"))
    assert (put.spec.priority, put.spec.tags, put.status) == (5, (), JobStatus.PAUSED)
    assert await at_work.timer(made) is None


async def test_puts_of_a_new_name_at_one_moment_make_one_job(at_work: World) -> None:
    specs = [at_work.spec(name="nightly", schedule="@daily", priority=number) for number in range(6)]
    results = await asyncio.gather(*(at_work.catalog.put(WHO, "nightly", spec) for spec in specs))
    assert sum(is_new for _, is_new in results) == 1
    assert len({made.id for made, _ in results}) == 1
    assert len(await at_work.rows("jobs")) == 1


async def test_unknown_jobs_are_not_found(at_work: World) -> None:
    for ref in (uuid4(), "nobody"):
        with pytest.raises(errors.NotFoundError):
            await at_work.catalog.get(WHO, ref)
        with pytest.raises(errors.NotFoundError):
            await at_work.catalog.delete(WHO, ref)


async def test_500_jobs_created_while_the_scheduler_looks_all_fire(at_work: World) -> None:
    """resque/resque-scheduler#230: a schedule added while the list was reloaded was shown and never queued (I3)."""

    async def keep_firing() -> None:
        while not done.is_set():
            await at_work.fire()
            await asyncio.sleep(0)

    done = asyncio.Event()
    firing = asyncio.create_task(keep_firing())
    for batch in range(10):
        specs = [at_work.spec(name=f"job-{batch}-{number}", schedule="* * * * *") for number in range(50)]
        await at_work.catalog.create_many(WHO, specs)
    done.set()
    await firing
    at_work.later(seconds=61)
    await at_work.fire()
    fired = await at_work.rows("runs")
    assert len({row["job_id"] for row in fired}) == 500
    assert {row["scheduled_for"] for row in fired} == {instant("2026-12-01T12:01:00Z")}
