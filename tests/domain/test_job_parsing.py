"""Reading a job's body: what is taken, what is refused, and that every fault is named."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import job, job_document, job_parsing
from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap
from horarium.domain.retry import RetryPolicy

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
PLAIN: dict[str, Any] = {"name": "nightly", "target": {"handler": "billing.run"}, "schedule": "0 2 * * *"}


def parse(**members: Any) -> job.JobSpec:
    body = {**PLAIN, **members}
    if any(way in members for way in ("interval_s", "run_at", "run_in_s")) and "schedule" not in members:
        del body["schedule"]
    return job_parsing.parse(body, now=NOW)


def faults_of(**members: Any) -> dict[str, str]:
    """Pointer and code of each fault."""
    with pytest.raises(errors.InvalidError) as raised:
        parse(**members)
    return {fault.pointer: fault.code for fault in raised.value.faults}


def test_a_small_body_has_the_defaults_of_everything_else() -> None:
    assert parse() == job.JobSpec(name="nightly", target={"handler": "billing.run"}, schedule="0 2 * * *")


def test_every_member_is_read() -> None:
    spec = parse(
        description="d", owner="o", tags=["a", "b", "a"], managed_by="m", payload={"a": 1}, queue="billing", priority=9,
        timezone="Asia/Kolkata", start_at="2027-01-01T00:00:00+05:30", end_at="2028-01-01T00:00:00.1234567Z", jitter_s=30,
        misfire="skip", misfire_grace_s=0, catch_up_window_s=5, max_catch_up=1000, overlap="queue_one",
        retry={"max_attempts": 5, "backoff": "linear", "base_s": 0.5}, timeout_s=600, expect={"within_s": 3600},
    )  # fmt: skip
    assert spec == job.JobSpec(
        name="nightly", description="d", owner="o", tags=("a", "b"), managed_by="m", target={"handler": "billing.run"},
        payload='{"a":1}', queue="billing", priority=9, schedule="0 2 * * *", timezone="Asia/Kolkata",
        start_at=datetime(2026, 12, 31, 18, 30, tzinfo=UTC), end_at=datetime(2028, 1, 1, 0, 0, 0, 123456, UTC), jitter_s=30,
        misfire=Misfire.SKIP, misfire_grace_s=0, catch_up_window_s=5, max_catch_up=1000, overlap=Overlap.QUEUE_ONE,
        retry=RetryPolicy(max_attempts=5, backoff="linear", base_s=0.5), timeout_s=600, expect={"within_s": 3600},
    )  # fmt: skip


def test_null_means_the_default() -> None:
    nothing = dict.fromkeys(job_parsing._READERS) | PLAIN
    assert job_parsing.parse(nothing, now=NOW) == parse()


@pytest.mark.parametrize(
    "timing",
    [
        {"schedule": "@daily", "run_at": "2027-01-01T00:00:00Z"},
        {"schedule": "@daily", "interval_s": 60},
        {"run_at": "now", "run_in_s": 5},
        {"schedule": None},
        {"schedule": "@daily", "interval_s": 60, "run_at": "now"},
    ],
)
def test_exactly_one_way_of_saying_when_is_taken(timing: dict[str, Any]) -> None:
    """openclaw/openclaw#96045: a job both recurring and one-off was accepted (O4)."""
    assert faults_of(**timing) == {"": "one_timing"}


def test_all_faults_are_named_at_once() -> None:
    assert faults_of(
        name=" ", schedule="99 * * * *", timezone="Mars/Phobos", priority=10, timeout_s=0, payload={"a": [float("nan")]},
        retry={"max_attempts": 0, "bakoff": "x"}, target={"http": {"url": "ftp://x"}}, tags=["", 5], queue="a b", after=[],
        concurrency={}, pirority=1, id="x", start_at="tomorrow", end_at="2027-01-01T00:00:00", overlap="skip_queue",
    ) == {
        "/name": "invalid", "/schedule": "invalid_schedule", "/timezone": "invalid_timezone", "/priority": "invalid",
        "/timeout_s": "invalid", "/payload/a/0": "invalid", "/retry/max_attempts": "invalid",
        "/retry/bakoff": "unknown_member", "/target/http/url": "invalid", "/tags/0": "invalid", "/tags/1": "invalid",
        "/queue": "invalid", "/after": "not_in_this_version", "/concurrency": "not_in_this_version",
        "/pirority": "unknown_member", "/id": "read_only_member", "/start_at": "invalid", "/end_at": "invalid",
        "/overlap": "invalid",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("member", "meant"),
    [("shedule", "schedule"), ("time_zone", "timezone"), ("cron", "schedule"), ("Priority", "priority"),
     ("timeout", "timeout_s"), ("run_at_fold", "fold"), ("args", "payload"), ("maxcatchup", "max_catch_up")],
)  # fmt: skip
def test_an_unknown_member_is_refused_with_what_was_probably_meant(member: str, meant: str) -> None:
    with pytest.raises(errors.InvalidError, match=f"/{member}: is unknown; did you mean {meant}"):
        parse(**{member: 1})


@pytest.mark.parametrize("value", [5.0, "5", True, 2**31, 2**63, 10**40, -1, [], {}, 1e308, float("inf")])
@pytest.mark.parametrize(
    "member",
    ["priority", "timeout_s", "jitter_s", "misfire_grace_s", "catch_up_window_s", "max_catch_up", "interval_s"],
)
def test_a_whole_number_is_nothing_else_and_fits_its_column(member: str, value: Any) -> None:
    assert faults_of(**{member: value}) == {f"/{member}": "invalid"}


@pytest.mark.parametrize(
    ("member", "low", "high"),
    [("priority", 0, 9), ("timeout_s", 1, 86_400), ("jitter_s", 0, 86_400), ("max_catch_up", 0, 1000),
     ("interval_s", 1, 50 * 366 * 86_400)],
)  # fmt: skip
def test_the_bounds_of_a_number_belong_to_it(member: str, low: int, high: int) -> None:
    for value in (low, high):
        assert getattr(parse(**{member: value}), member) == value
    for value in (low - 1, high + 1):
        assert faults_of(**{member: value}) == {f"/{member}": "invalid"}


@pytest.mark.parametrize("name", ["отчёт", "日報 🗓", "a.b", "a/b", "x" * 200, "👩‍🚀", "\u05d0\u05d1", "e\u0301" * 200])
def test_names_of_any_script_are_taken(name: str) -> None:
    """dkron-io/dkron#604: a name in another script, or with a dot, gave a 500 (N4)."""
    parse(name=name)


def test_names_are_kept_in_nfc() -> None:
    """dkron-io/dkron#604: two spellings of é are one name."""
    assert parse(name="caf\u0065\u0301").name == parse(name="caf\u00e9").name == "caf\u00e9"


@pytest.mark.parametrize(
    "name",
    ["", " ", "\u3000", "\u200b", "x" * 301, "x" * 201, " a", "a ", "a\u00a0", "a\nb", "a\x00b", "a\x7f", "a\x85b",
     "\ud800", "a\u2028b", "a\u202eb", 5, [], {}, True],
)  # fmt: skip
def test_empty_blank_long_and_unprintable_names_are_refused(name: Any) -> None:
    """dkron-io/dkron#604: such names are 422, never 500 (N4)."""
    assert faults_of(name=name) == {"/name": "invalid"}


def test_only_one_offs_may_go_without_a_name() -> None:
    assert faults_of(name=None) == {"/name": "missing"}
    assert parse(name=None, run_at="now").name is None
    assert parse(name=None, run_in_s=3).name is None


def test_lists_and_texts_have_an_end() -> None:
    assert faults_of(tags=[str(number) for number in range(51)]) == {"/tags": "invalid"}
    assert faults_of(tags=["x" * 101]) == {"/tags/0": "invalid"}
    assert faults_of(tags="finance") == {"/tags": "invalid"}
    assert faults_of(description="x" * 2001) == {"/description": "invalid"}
    assert faults_of(description="a\0b") == {"/description": "invalid"}
    assert parse(description="two\nlines").description == "two\nlines"
    assert faults_of(expect={"within_s": 0}) == {"/expect/within_s": "invalid"}
    assert faults_of(expect={"within": 5}) == {"/expect/within": "unknown_member"}


@pytest.mark.parametrize("bound", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z",
                                   "9999-12-31T23:59:59-14:00", "2200-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
                                   "2027-02-30T00:00:00Z", "2027-01-01T24:00:00Z", "2027-01-01T00:00:60Z",
                                   "20270101T000000Z", "2027-W01-1T00:00:00Z", "2027-01-01", "2027-01-01T00:00:00",
                                   "٢٠٢٧-01-01T00:00:00Z", "2027-01-01T00:00:00+99:99", 1_800_000_000, ""])  # fmt: skip
@pytest.mark.parametrize("member", ["start_at", "end_at"])
def test_a_bound_is_an_instant_that_can_be(member: str, bound: Any) -> None:
    assert faults_of(**{member: bound}) == {f"/{member}": "invalid"}


def test_bounds_that_are_crossed_are_refused() -> None:
    """Rule B2: start_at lies before end_at."""
    at = "2027-01-01T00:00:00Z"
    assert faults_of(start_at=at, end_at=at) == {"/end_at": "crossed_bounds"}
    assert faults_of(start_at="2027-06-01T00:00:00Z", end_at=at) == {"/end_at": "crossed_bounds"}


@pytest.mark.parametrize(
    "members",
    [{"schedule": "0 12 31 4 *"}, {"schedule": "0 0 30 2 *"}, {"schedule": "0 0 1 1 *", "end_at": "2026-11-30T00:00:00Z"},
     {"schedule": "0 0 1 1 *", "start_at": "2027-01-02T00:00:00Z", "end_at": "2027-12-31T00:00:00Z"}],
)  # fmt: skip
def test_a_schedule_that_never_fires_is_refused(members: dict[str, Any]) -> None:
    """agronholm/apscheduler#389, celery/celery#2714: a job without any time was stored, or hung (S9)."""
    assert faults_of(**members) == {"/schedule": "never_fires"}


def test_a_dated_job_is_taken_on_its_very_day() -> None:
    """quartz-scheduler/quartz#1138: never-firing means none in fifty years (S9)."""
    now = datetime(2025, 2, 23, 1, 45, 10, tzinfo=UTC)
    body = {**PLAIN, "schedule": "29 5 2 23 2 *", "timezone": "Africa/Casablanca"}
    assert job_parsing.parse(body, now=now).schedule == "29 5 2 23 2 *"


def test_an_interval_or_a_one_off_outside_its_bounds_never_fires() -> None:
    assert faults_of(interval_s=3600, end_at="2026-12-01T12:30:00Z") == {"/interval_s": "never_fires"}
    assert faults_of(run_at="2027-01-01T00:00:00Z", end_at="2026-12-31T00:00:00Z") == {"/run_at": "never_fires"}


@pytest.mark.parametrize("schedule", ["CRON_TZ=Europe/Riga 0 9 * * *", "TZ=UTC 0 9 * * *"])
def test_a_zone_in_the_expression_is_refused_with_a_hint(schedule: str) -> None:
    """kubernetes/kubernetes#108032: a zone prefix clashed with the zone member (S5)."""
    with pytest.raises(errors.InvalidError, match="timezone"):
        parse(schedule=schedule)


@pytest.mark.parametrize(
    "zone", ["Asia/Calcutta", "US/Pacific", "Europe/Kiev", "Asia/Katmandu", "America/Indianapolis"]
)
def test_an_old_name_of_a_zone_is_given_back_as_it_was_sent(zone: str) -> None:
    """tzinfo/tzinfo#163, jackmusick/bifrost#739: old names of zones were unknown (Z0)."""
    assert parse(timezone=zone).timezone == zone


def test_both_the_zone_and_the_expression_are_looked_at() -> None:
    assert set(faults_of(timezone="PST", schedule="*/90 * * * *")) == {"/timezone", "/schedule"}


@pytest.mark.parametrize("value", [5, ["0 2 * * *"], {"minute": 0}, True])
def test_texts_about_time_are_texts(value: Any) -> None:
    assert faults_of(schedule=value) == {"/schedule": "invalid"}
    assert faults_of(timezone=value) == {"/timezone": "invalid"}
    assert faults_of(run_at=value) == {"/run_at": "invalid"}


def test_now_and_in_seconds_count_from_the_given_time() -> None:
    assert parse(run_at="now").run_at == NOW
    assert parse(run_in_s=0).run_at == NOW
    assert parse(run_in_s=90.25).run_at == NOW + timedelta(seconds=90.25)
    assert faults_of(run_in_s=-1) == {"/run_in_s": "invalid"}
    assert faults_of(run_in_s="5") == {"/run_in_s": "invalid"}
    assert faults_of(run_in_s=float("nan")) == {"/run_in_s": "invalid"}
    assert faults_of(run_in_s=10**30) == {"/run_in_s": "invalid"}
    assert faults_of(run_in_s=174 * 365 * 86_400) == {"/run_in_s": "run_at_too_far"}


@pytest.mark.parametrize(
    ("run_at", "code"),
    [("2026-12-01T11:00:00Z", "run_at_in_past"), ("2026-12-01T11:54:59Z", "run_at_in_past"),
     ("0001-01-01T00:00:00+14:00", "run_at_in_past"), ("2200-01-01T00:00:00Z", "run_at_too_far"),
     ("9999-12-31T23:59:59-14:00", "run_at_too_far"), ("soon", "invalid_run_at"), ("NOW", "invalid_run_at"),
     ("2027-02-30T00:00:00Z", "invalid_run_at")],
)  # fmt: skip
def test_a_one_off_that_cannot_be_is_refused(run_at: str, code: str) -> None:
    """agronholm/apscheduler#389: a one-off in the past is told so at once (O1, O2, O3)."""
    assert faults_of(run_at=run_at) == {"/run_at": code}


def test_a_one_off_up_to_300_seconds_late_is_taken() -> None:
    assert parse(run_at="2026-12-01T11:55:00Z").run_at == NOW - timedelta(seconds=300)
    assert parse(run_at="2199-12-31T23:59:59Z").run_at == datetime(2199, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run_at", "zone", "around"),
    [("2027-03-14T02:30:00", "America/New_York", ("2027-03-14T01:59:59-05:00", "2027-03-14T03:00:00-04:00")),
     ("2027-10-03T02:15:00", "Australia/Lord_Howe", ("2027-10-03T01:59:59+10:30", "2027-10-03T02:30:00+11:00"))],
)  # fmt: skip
def test_a_local_time_that_does_not_exist_is_refused_with_its_neighbours(
    run_at: str, zone: str, around: tuple[str, str]
) -> None:
    """bytedance/deer-flow#5345: such a time was silently moved (O1)."""
    with pytest.raises(errors.InvalidError) as raised:
        parse(run_at=run_at, timezone=zone)
    (fault,) = raised.value.faults
    assert (fault.pointer, fault.code) == ("/run_at", "nonexistent_local_time")
    assert all(instant in fault.detail for instant in around)
    assert parse(run_at=run_at + "-04:00", timezone=zone).run_at_local is None


def test_a_local_time_that_happens_twice_needs_a_fold() -> None:
    twice = {"run_at": "2027-11-07T01:30:00", "timezone": "America/New_York"}
    assert faults_of(**twice) == {"/run_at": "ambiguous_local_time"}
    first, second = parse(**twice, fold="first"), parse(**twice, fold="second")
    assert first.run_at == datetime(2027, 11, 7, 5, 30, tzinfo=UTC)
    assert second.run_at == datetime(2027, 11, 7, 6, 30, tzinfo=UTC)
    assert (second.run_at_local, second.run_at_fold) == ("2027-11-07T01:30:00", "second")
    assert faults_of(fold="first") == {"/fold": "invalid"}
    assert faults_of(**twice, fold="third") == {"/fold": "invalid", "/run_at": "ambiguous_local_time"}


def test_bodies_keep_the_digits_of_their_payload() -> None:
    """contribsys/faktory#395: a 64-bit integer in the payload came back rounded (N4)."""
    raw = '{"id": 3889108265204450030, "big":9007199254740993, "f":1.10, "s":"\\u00e9"}'
    body = job_parsing.read_body(f'{{"name":"n","target":{{"handler":"w"}},"run_at":"now","payload":{raw}}}'.encode())
    assert job_parsing.parse(body, now=NOW).payload == raw


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 400 + "e1", "9" * 5000])
def test_numbers_that_overflow_are_refused_with_their_path(value: str) -> None:
    """contribsys/faktory#395: 1e400, NaN and Infinity are 422 (N4)."""
    raw = f'{{"name":"n","target":{{"handler":"w"}},"run_at":"now","payload":{{"a":[{{"b/c":{value}}}]}}}}'
    with pytest.raises(errors.InvalidError) as raised:
        job_parsing.parse(job_parsing.read_body(raw.encode()), now=NOW)
    assert [fault.pointer for fault in raised.value.faults] == ["/payload/a/0/b~1c"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'"x"', b"5", b"{,}", b'{"a":}', b'{"a" 1}', b"\xff\xfe", b'{"name":"\xff"}',
     b'{"a":' * 100_000, b"[" * 100_000, b'{"name":"\x00"}', b"{} {}", b"\xef\xbb\xbf{}"],
)  # fmt: skip
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidError) as raised:
        job_parsing.read_body(raw)
    assert [fault.pointer for fault in raised.value.faults] == [""]


def test_a_half_surrogate_in_a_body_is_a_fault_of_its_member() -> None:
    body = job_parsing.read_body(b'{"name":"\\ud800","owner":"a\\udfffb","target":{"handler":"w"},"schedule":"@daily"}')
    with pytest.raises(errors.InvalidError) as raised:
        job_parsing.parse(body, now=NOW)
    assert [fault.pointer for fault in raised.value.faults] == ["/name", "/owner"]
    json.dumps([fault.detail for fault in raised.value.faults]).encode()


def test_a_body_and_a_payload_have_a_largest_size() -> None:
    with pytest.raises(errors.TooLargeError):
        job_parsing.read_body(b" " * (job_parsing.MAX_BODY_BYTES + 1))
    with pytest.raises(errors.TooLargeError):
        parse(payload="x" * (256 * 1024))
    with pytest.raises(errors.TooLargeError):
        parse(payload=msgspec.Raw(b'"' + b"x" * (256 * 1024) + b'"'))
    assert len(parse(payload=msgspec.Raw(b'"' + b"x" * (256 * 1024 - 2) + b'"')).payload) == 256 * 1024


def test_a_batch_is_read_item_by_item() -> None:
    good = b'{"name":"n","target":{"handler":"w"},"schedule":"@daily","payload":{"n":12345678901234567890}}'
    read = job_parsing.read_bodies(b"[" + b",".join([good, b"5", b'{"name":"\\ud800"}', b"null", good]) + b"]")
    assert isinstance(read[0], dict)
    assert bytes(read[0]["payload"]) == b'{"n":12345678901234567890}'
    assert isinstance(read[1], errors.InvalidError)
    assert isinstance(read[2], dict)
    assert isinstance(read[3], errors.InvalidError)
    assert read[4]["name"] == "n" if isinstance(read[4], dict) else False
    assert job_parsing.read_bodies(b"[]") == []
    assert len(job_parsing.read_bodies(b' [ {} , 5\n,\t"\\ud800" ] ')) == 3


VALUES: dict[str, list[bytes]] = {
    "name": [b'"a"', b'"b"', b'""', b"null", b"5", b'"a\\ud800"'],
    "payload": [b"{}", b'{"n":1}', b"null", b'"\\u0000"', b"1.50", b"[" * 101 + b"]" * 101],
    "target": [b'{"handler":"w"}', b'{"handler":"v"}', b'{"http":{"url":"https://h.example"}}', b"null", b"5"],
    "run_at": [b'"now"', b'"2030-01-01T00:00:00Z"', b"null", b"17"],
    "run_in_s": [b"5", b"-1"],
    "schedule": [b'"@daily"', b'"* * *"'],
    "priority": [b"3", b"3.0", b"true", b"99"],
    "tags": [b'["x","y"]', b'["x","x"]', b'"x"'],
    "unknown": [b"1"],
}


@st.composite
def raw_bodies(draw: st.DrawFn) -> bytes:
    members = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=6))
    given = [b'"%s":%s' % (name.encode(), draw(st.sampled_from(VALUES[name]))) for name in members]
    return b"{" + b",".join(given) + b"}"


def _outcome(parse_it: Callable[[], job.JobSpec]) -> object:
    try:
        return parse_it()
    except errors.InvalidError as error:
        return error.faults


@given(st.lists(raw_bodies(), max_size=12))
@settings(max_examples=300)
def test_a_batch_is_parsed_as_its_bodies_are_one_by_one(raw: list[bytes]) -> None:
    """Whatever members they share, and whatever is wrong with some of them."""
    bodies = job_parsing.read_bodies(b"[" + b",".join(raw) + b"]")
    parser = job_parsing.Parser(NOW)
    for body, alone in zip(bodies, raw, strict=True):
        assert isinstance(body, dict)
        together = _outcome(functools.partial(parser.parse, body))
        assert together == _outcome(functools.partial(job_parsing.parse, job_parsing.read_body(alone), now=NOW))


def test_what_bodies_of_a_batch_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"target":{"handler":"w"},"run_in_s":5,"name":"n%d","payload":{"n":%d}}'
    bodies = job_parsing.read_bodies(b"[" + b",".join(body % (n, n) for n in range(50)) + b"]")
    parser, read = job_parsing.Parser(NOW), list[object]()
    original = job_parsing.parse

    def counted(body: dict[str, Any], **more: Any) -> job.JobSpec:
        read.append(body)
        return original(body, **more)

    monkeypatch.setattr(job_parsing, "parse", counted)
    made = [parser.parse(body) for body in bodies if isinstance(body, dict)]
    assert [(spec.name, spec.payload) for spec in made] == [(f"n{n}", f'{{"n":{n}}}') for n in range(50)]
    assert len(read) == 1


def test_a_batch_has_a_largest_size_and_is_a_list() -> None:
    with pytest.raises(errors.TooLargeError):
        job_parsing.read_bodies(b"[" + b",".join([b"{}"] * 10_001) + b"]")
    with pytest.raises(errors.TooLargeError):
        job_parsing.read_bodies(b"[" + b",".join([b"1"] * 10_001) + b"]")
    with pytest.raises(errors.TooLargeError):
        job_parsing.read_bodies(bytes(job_parsing.MAX_BATCH_BYTES + 1))
    for raw in (b"{}", b"[{]", b"", b"[" * 100_000, b"[5,]", b"[5 6]", b"[5] 6", b"[5", b"[] []", b"5", b"[\xff]"):
        with pytest.raises(errors.InvalidError):
            job_parsing.read_bodies(raw)


def test_a_patch_changes_what_it_names() -> None:
    spec = parse(priority=7, tags=["a"], payload={"a": 1}, retry={"max_attempts": 9, "base_s": 1})
    merged = job_parsing.merge(
        spec, {"priority": None, "tags": ["b"], "payload": {"b": 2}, "retry": {"base_s": 2}}, now=NOW
    )
    assert (merged.priority, merged.tags, merged.payload) == (5, ("b",), '{"b":2}')
    assert merged.retry == RetryPolicy(max_attempts=9, base_s=2)
    assert job_parsing.merge(spec, {}, now=NOW) == spec


def test_a_patch_merges_a_target_and_may_exchange_it() -> None:
    spec = parse(target={"http": {"url": "https://a.example", "headers": {"A": "1", "B": "2"}}})
    merged = job_parsing.merge(spec, {"target": {"http": {"headers": {"A": None, "C": "3"}}}}, now=NOW)
    assert merged.target == {"http": {"url": "https://a.example", "headers": {"B": "2", "C": "3"}}}
    exchanged = job_parsing.merge(spec, {"target": {"http": None, "handler": "h"}}, now=NOW)
    assert exchanged.target == {"handler": "h"}
    with pytest.raises(errors.InvalidError, match="exactly one"):
        job_parsing.merge(spec, {"target": {"handler": "h"}}, now=NOW)


def test_a_moment_that_has_passed_may_stay() -> None:
    later = NOW + timedelta(days=1)
    for members in ({"run_at": "now"}, {"run_at": "2026-12-01T13:00:00"}, {"run_in_s": 0.25}):
        spec = parse(**members)
        body = job_document.body_of(spec)
        assert job_parsing.parse(body, now=later, held=spec) == spec
        assert job_parsing.merge(spec, {"end_at": "2027-01-01T00:00:00Z"}, now=later).run_at == spec.run_at
        with pytest.raises(errors.InvalidError):
            job_parsing.parse({**body, "run_at": "2026-12-01T12:00:01Z"}, now=later, held=spec)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*job_parsing._READERS, "after", "x", "id", ""]), JSON, max_size=6))
def test_a_body_of_anything_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        job_parsing.parse({**PLAIN, **body}, now=NOW)
    except errors.InvalidError as error:
        refused = error
    else:
        return
    assert refused.faults
    assert all(fault.pointer == "" or fault.pointer.startswith("/") for fault in refused.faults)
    str(refused).encode()


GOOD = st.fixed_dictionaries(
    {"name": st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=40)},
    optional={
        "tags": st.lists(st.sampled_from(["a", "b", "c"]), max_size=3),
        "priority": st.integers(0, 9),
        "jitter_s": st.integers(0, 86_400),
        "misfire": st.sampled_from(Misfire).map(str),
        "overlap": st.sampled_from(Overlap).map(str),
        "payload": st.recursive(
            st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.sampled_from(["", "é", "\\", '"', "日"]),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            max_leaves=5,
        ),
        "retry": st.fixed_dictionaries({}, optional={"max_attempts": st.integers(1, 9), "jitter": st.floats(0, 1)}),
        "description": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    },
)  # fmt: skip
TIMING = st.sampled_from(
    [{"schedule": "*/5 * * * *", "timezone": "Asia/Kolkata"}, {"interval_s": 90, "start_at": "2027-01-01T00:00:00.5Z"},
     {"run_at": "now"}, {"run_in_s": 7.5}, {"run_at": "2027-11-07T01:30:00", "timezone": "America/New_York", "fold": "second"}]
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(GOOD, TIMING)
def test_what_is_shown_reads_back_as_the_same(body: dict[str, Any], timing: dict[str, Any]) -> None:
    target = {"http": {"url": "https://a.example", "retry_on": [409]}}
    raw = msgspec.json.encode({**body, **timing, "target": target})
    spec = job_parsing.parse(job_parsing.read_body(raw), now=NOW)
    again = msgspec.json.encode(job_document.body_of(spec))
    assert job_parsing.parse(job_parsing.read_body(again), now=NOW, held=spec) == spec
    assert job_parsing.merge(spec, {}, now=NOW) == spec
