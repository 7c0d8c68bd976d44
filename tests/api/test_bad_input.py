"""Bad input as other schedulers met it: each row of the public bug reports that shows in REST, with its status here.

The numbers are those of the collection of bug reports; rule numbers (S2, N4, …) are those of the schedule rules.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from tests.api.conftest import Answer, Api

TARGET = {"handler": "h"}


async def create(api: Api, **members: Any) -> Answer:
    return await api("POST", "/v1/jobs", {"target": TARGET, **members})


async def nothing_is_stored(api: Api) -> bool:
    async with api.services.database.connection() as connection:
        return not await connection.fetchval("SELECT EXISTS (SELECT FROM jobs) OR EXISTS (SELECT FROM timers)")


@pytest.mark.parametrize(
    ("number", "schedule", "status", "word"),
    [
        (31, "CRON_TZ=Europe/Riga 0 9 * * *", 422, "timezone"),
        (31, "TZ=UTC 0 9 * * *", 422, "timezone"),
        (64, "60 0 0 1 * *", 422, "second"),
        (67, "*/90 * * * *", 422, "5400"),
        (68, "0 0 13 * 5", 201, ""),
        (70, "0 0 * * SAT-SUN", 201, ""),
        (70, "0 0 * * FRI-SUN", 201, ""),
        (70, "0 0 * * MON-SUN", 201, ""),
        (70, "0 0 * * 5-7", 201, ""),
        (70, "0 0 * * 7", 201, ""),
        (70, "0 0 * * 0,7", 201, ""),
        (71, "0 12 31 4 *", 422, ""),
        (71, "0 0 30 2 *", 422, ""),
        (71, "0 0 31 2,4,6,9,11 *", 422, ""),
        (73, "0 9 29 2 *", 201, ""),
        (74, "0-99999999/1 * * * *", 422, ""),
        (74, "9" * 5000 + " * * * *", 422, "255"),
        (74, "," * 60_000, 422, "255"),
        (76, "* 0-1 10 * * *", 201, ""),
        (77, "1-59/3 * * * *", 201, ""),
        (0, "", 422, ""),
        (0, "0 0 * * *\n", 422, ""),
        (0, "0 0\u00a0* * *", 422, ""),
        (0, "0 0 * * *\0", 422, ""),
        (0, "٠ 0 * * *", 422, ""),
        (0, "0 0 * * ſun", 422, ""),
        (0, "@every 5m", 422, "interval_s"),
        (0, "@reboot", 422, ""),
        (0, "0 0 15W * *", 422, ""),
        (0, "0 0 L-3 * *", 422, ""),
        (0, "0 0 1 1 * * 2027", 422, "start_at"),
        (0, "0 22-2 * * *", 422, ""),
        (0, "*/0 * * * *", 422, ""),
    ],
)
async def test_expressions(api: Api, number: int, schedule: str, status: int, word: str) -> None:
    started = time.perf_counter()
    answer = await create(api, name="x", schedule=schedule)
    took = time.perf_counter() - started
    assert answer.status == status, answer.raw
    if status == 422:
        assert set(answer.faults) == {"/schedule"}
        assert word in answer.body["errors"][0]["detail"]
        assert await nothing_is_stored(api)
    if number == 71:
        assert answer.kind == "never-fires"
    assert took < 1.0, "N1: 50 ms for the expression; the rest is room for a busy machine"


@pytest.mark.parametrize(
    ("number", "timezone", "status"),
    [
        (28, "America/Indianapolis", 201),
        (29, "Asia/Calcutta", 201),
        (29, "US/Pacific", 201),
        (29, "Europe/Kiev", 201),
        (29, "Asia/Katmandu", 201),
        (32, "Asia/Singapore", 201),
        (0, "Mars/Base", 422),
        (0, "PST", 422),
        (0, "+02:00", 422),
        (0, "../../etc/passwd", 422),
        (0, "/usr/share/zoneinfo/UTC", 422),
        (0, "europe/riga", 422),
        (0, "", 422),
        (0, "UTC\0", 422),
        (0, 7, 422),
    ],
)
async def test_zones(api: Api, number: int, timezone: Any, status: int) -> None:
    answer = await create(api, name="x", schedule="30 2 * * *", timezone=timezone)
    assert answer.status == status, answer.raw
    if status == 201:
        assert answer.body["timezone"] == timezone
        assert (await api("GET", "/v1/jobs/name:x")).body["timezone"] == timezone
    else:
        assert set(answer.faults) == {"/timezone"}


@pytest.mark.parametrize(
    ("number", "members", "kind"),
    [
        (26, {"run_at": "2027-03-14T02:30:00", "timezone": "America/New_York"}, "nonexistent-local-time"),
        (26, {"run_at": "2027-10-03T02:15:00", "timezone": "Australia/Lord_Howe"}, "nonexistent-local-time"),
        (0, {"run_at": "2027-11-07T01:30:00", "timezone": "America/New_York"}, "ambiguous-local-time"),
        (85, {"schedule": "@daily", "run_at": "2027-01-01T00:00:00Z"}, None),
        (85, {"schedule": "@daily", "interval_s": 60}, None),
        (85, {}, None),
        (86, {"run_at": "2020-01-01T00:00:00Z"}, "run-at-in-past"),
        (86, {"schedule": "0 0 1 1 *", "end_at": "2020-01-01T00:00:00Z"}, "never-fires"),
        (0, {"run_at": "2200-01-01T00:00:00Z"}, None),
        (0, {"run_at": "2027-02-30T00:00:00Z"}, None),
        (0, {"run_at": "soon"}, None),
        (0, {"run_at": 1893456000}, None),
        (0, {"run_in_s": -1}, None),
        (0, {"run_in_s": 1e300}, None),
        (0, {"interval_s": 0}, None),
        (0, {"interval_s": 1.5}, None),
        (0, {"interval_s": "60"}, None),
        (0, {"interval_s": 10**40}, None),
        (0, {"schedule": "@daily", "start_at": "2028-01-01T00:00:00Z", "end_at": "2027-01-01T00:00:00Z"}, None),
        (0, {"schedule": "@daily", "start_at": "2028-01-01T00:00:00"}, None),
    ],
)
async def test_times_and_contradictions(api: Api, number: int, members: dict[str, Any], kind: str | None) -> None:
    answer = await create(api, name="x", **members)
    assert answer.status == 422, answer.raw
    assert kind in (None, answer.kind)
    assert await nothing_is_stored(api)


async def test_26_the_instants_around_a_gap_are_named_and_an_offset_is_taken_as_it_is(api: Api) -> None:
    refused = await create(api, name="x", run_at="2030-03-10T02:30:00", timezone="America/New_York")
    detail = refused.body["errors"][0]["detail"]
    assert "01:59:59-05:00" in detail
    assert "03:00:00-04:00" in detail
    taken = await create(api, name="x", run_at="2030-03-10T02:30:00-05:00", timezone="America/New_York")
    assert (taken.status, taken.body["next_run_at"]) == (201, "2030-03-10T07:30:00Z")


async def test_86_half_a_minute_late_is_not_late(api: Api) -> None:
    now = await api.services.database.now()
    past = now.replace(microsecond=0).isoformat().replace("+00:00", "Z")
    answer = await create(api, run_at=past)
    assert answer.status == 201
    assert (await api("GET", f"/v1/runs/{answer.body['run_id']}")).body["state"] == "queued"


async def test_22_a_dated_job_on_the_day_of_a_change_of_clocks_is_taken(api: Api) -> None:
    answer = await create(api, name="dated", schedule="29 5 2 23 2 *", timezone="Africa/Casablanca")
    assert answer.status == 201
    assert answer.body["next_runs_local"][0][4:19] == "-02-23T02:05:29"


async def test_65_far_ahead_is_far_ahead(api: Api) -> None:
    answer = await create(api, name="far", run_in_s=60 * 86400)
    assert answer.status == 201
    assert (await api("GET", f"/v1/runs/{answer.body['run_id']}")).status == 404


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("отчёт", 201),
        ("日報 🗓", 201),
        ("a.b", 201),
        ("a/b", 201),
        ("a" * 200, 201),
        (" ", 422),
        ("", 422),
        ("a" * 201, 422),
        ("a" * 300, 422),
        ("a\0b", 422),
        ("a\nb", 422),
        ("a\u2028b", 422),
        ("a\u202eb", 422),
        ("\u200b", 422),
        (7, 422),
        (["a"], 422),
        (None, 422),
    ],
)
async def test_83_names(api: Api, name: Any, status: int) -> None:
    answer = await create(api, name=name, schedule="@daily")
    assert answer.status == status, answer.raw
    if status == 201:
        assert [job["name"] for job in (await api("GET", "/v1/jobs")).body["items"]] == [name]
        assert (await api("GET", f"/v1/jobs/name:{quote(name, safe='')}")).status == 200
    else:
        assert set(answer.faults) == {"/name"}
        assert await nothing_is_stored(api)


async def test_83_two_ways_to_write_one_name_are_one_name(api: Api) -> None:
    assert (await create(api, name="\u00e9", schedule="@daily")).status == 201
    assert (await create(api, name="e\u0301", schedule="@daily")).status == 409


async def test_80_integers_come_back_digit_for_digit(api: Api) -> None:
    raw = b'{"target":{"handler":"h"},"name":"x","schedule":"@daily","payload":{"id":3889108265204450030,"big":9007199254740993}}'
    assert (await api("POST", "/v1/jobs", raw=raw)).status == 201
    for answer in (await api("GET", "/v1/jobs/name:x"), await api("POST", "/v1/jobs/name:x/run")):
        assert b'{"id":3889108265204450030,"big":9007199254740993}' in answer.raw


UNREADABLE = [
    (b'{"f":1e400}', "/payload/f"),
    (b'{"a":{"b":["x","\\u0000"]}}', "/payload/a/b/1"),
    (b'{"a\\u0000":1}', "/payload/a\0"),
    (b"9" * 2000, "/payload"),
]
NOT_EVEN_JSON = [
    (b'{"f":NaN}', "/payload/f"),
    (b'{"a":[1,-Infinity]}', "/payload/a/1"),
    (b'"\\ud800"', "/payload"),
]


@pytest.mark.parametrize(("payload", "pointer"), UNREADABLE + NOT_EVEN_JSON)
async def test_80_payloads_that_no_reader_could_read(api: Api, payload: bytes, pointer: str) -> None:
    answer = await api("POST", "/v1/jobs", raw=b'{"target":{"handler":"h"},"run_in_s":60,"payload":' + payload + b"}")
    assert (answer.status, set(answer.faults)) == (422, {pointer})
    assert await nothing_is_stored(api)


@pytest.mark.parametrize(("payload", "pointer"), UNREADABLE)
async def test_80_one_such_payload_in_a_batch_is_refused_alone(api: Api, payload: bytes, pointer: str) -> None:
    good = b'{"target":{"handler":"h"},"run_in_s":60}'
    bad = b'{"target":{"handler":"h"},"run_in_s":60,"payload":' + payload + b"}"
    answer = await api("POST", "/v1/jobs:batch", raw=b'{"jobs":[' + bad + b"," + good + b"]}")
    assert [item["status"] for item in answer.body["items"]] == [422, 201]
    assert [fault["pointer"] for fault in answer.body["items"][0]["problem"]["errors"]] == [pointer]


@pytest.mark.parametrize(("payload", "pointer"), NOT_EVEN_JSON)
async def test_80_a_batch_that_is_not_json_is_refused_as_a_whole(api: Api, payload: bytes, pointer: str) -> None:
    answer = await api("POST", "/v1/jobs:batch", raw=b'{"jobs":[{"run_in_s":60,"payload":' + payload + b"}]}")
    assert (answer.status, answer.kind) == (422, "malformed-json")
    assert await nothing_is_stored(api)


async def test_80_the_same_for_the_payload_of_one_run(api: Api) -> None:
    await create(api, name="x", schedule="@daily")
    answer = await api("POST", "/v1/jobs/name:x/run", raw=b'{"payload":{"f":1e400}}')
    assert (answer.status, set(answer.faults)) == (422, {"/payload/f"})
    answer = await api("PATCH", "/v1/jobs/name:x", raw=b'{"payload":{"f":1e400}}')
    assert (answer.status, set(answer.faults)) == (422, {"/payload/f"})


@pytest.mark.parametrize(
    "members",
    [
        {"target": "h"},
        {"target": {}},
        {"target": {"handler": "h", "http": {"url": "https://example.com"}}},
        {"target": {"http": {"url": "file:///etc/passwd"}}},
        {"target": {"http": {"url": "https://user:secret@example.com"}}},
        {"target": {"command": {"argv": "rm -rf /"}}},
        {"target": {"kafka": {"topic": "t"}}},
        {"retry": {"max_attempts": 0}},
        {"retry": {"max_atempts": 3}},
        {"retry": []},
        {"queue": "a b"},
        {"queue": "a" * 101},
        {"priority": 10},
        {"priority": True},
        {"priority": "5"},
        {"timeout_s": 0},
        {"timeout_s": 86401},
        {"tags": "finance"},
        {"tags": [""]},
        {"tags": ["x"] * 51},
        {"misfire": "run_twice"},
        {"overlap": "maybe"},
        {"max_catch_up": 1001},
        {"expect": {"within_s": 0}},
        {"jitter_s": -1},
        {"description": "x" * 2001},
        {"after": [{"job": "a"}]},
        {"id": "0193f4c2-5a00-7003-9c1e-5f0a3c4d2e1b"},
        {"next_run_at": "2027-01-01T00:00:00Z"},
        {"unknown": 1},
        {"": 1},
    ],
)
async def test_members_that_cannot_be(api: Api, members: dict[str, Any]) -> None:
    answer = await create(api, **{"name": "x", "schedule": "@daily", **members})
    assert answer.status == 422, answer.raw
    (member,) = members
    assert all(pointer.startswith(f"/{member}") for pointer in answer.faults)
    assert await nothing_is_stored(api)


async def test_89_and_44_an_edit_of_the_schedule_starts_nothing(api: Api) -> None:
    await create(api, name="f", schedule="0 0 1 1 *")
    patched = await api("PATCH", "/v1/jobs/name:f", {"schedule": "* * * * *"})
    now = await api.services.database.now()
    assert patched.status == 200
    assert msgspec.convert(patched.body["next_run_at"], type(now)) > now
    assert (await api("GET", "/v1/jobs/name:f/runs")).body["items"] == []


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"x","name":"y","schedule":"@daily","target":{"handler":"h"}}',
        b'{"name": "x", "schedule": "@daily", "target": {"handler": "h"}, "schedule": "@hourly"}',
    ],
)
async def test_a_member_that_is_stated_twice(api: Api, raw: bytes) -> None:
    answer = await api("POST", "/v1/jobs", raw=raw)
    assert (answer.status, answer.kind) == (422, "stated-twice")


@pytest.mark.parametrize(
    "path", ["/v1/jobs/name:%00", "/v1/jobs/name:", "/v1/jobs/%ff", "/v1/jobs/name:%ed%a0%80", "/v1/jobs/name:%ff"]
)
async def test_names_in_paths_that_cannot_be(api: Api, path: str) -> None:
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"priority": 1})):
        assert (await api(method, path, body)).status == 404
