"""The small pure parts of the command line."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from horarium import errors
from horarium.cli import dev_profile, diagnosis, local_zone, main, output, secret_file, times
from horarium.cli.diagnosis import Level
from horarium.store import diagnosis as store
from horarium.store import migrator

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.4, "now"),
        (1, "in 1 s"),
        (-59, "59 s ago"),
        (3599, "in 59 min"),
        (-7200, "2 h ago"),
        (90000, "in 1 d"),
    ],
)
def test_how_far_away(seconds: float, text: str) -> None:
    assert times.relative(NOW + timedelta(seconds=seconds), NOW) == text


def test_times_for_people() -> None:
    assert times.both("2026-12-01T02:00:00Z", NOW) == "2026-12-01 02:00Z (now)"
    assert times.both("2026-12-01T09:30:05.123+05:30", NOW) == "2026-12-01 09:30:05 +05:30 (in 2 h)"
    assert times.both(None, NOW) == "–"
    assert times.since("90m", NOW) == "2026-12-01T00:30:00Z"
    assert times.since("2026-01-01T00:00:00Z", NOW) == "2026-01-01T00:00:00Z"


def test_what_comes_over_the_network_cannot_steer_the_terminal() -> None:
    assert output.clean("a\x1b[31mb\x07\u202ec\x85") == "a�[31mb��c�"
    assert output.clean("a\nb\tc") == "a b c"
    assert output.clean("a\nb\tc", keep="\n") == "a\nb c"
    assert output.clean("कर्म\u200dकार्य ü 漢") == "कर्म\u200dकार्य ü 漢"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidError([]), 2),
        (errors.InvalidScheduleError("minute", "x"), 2),
        (errors.ConfigurationError("x"), 2),
        (errors.NotFoundError("x"), 3),
        (errors.ConflictError("x"), 4),
        (errors.UnreachableError("x"), 5),
        (errors.UnavailableError("x"), 5),
        (errors.EmbeddedPostgresError("x"), 1),
        *(
            (errors.RequestError(status, {}), code)
            for status, code in [(422, 2), (404, 3), (409, 4), (412, 4), (503, 5)]
        ),
        *((errors.RequestError(status, {}), 1) for status in (401, 403, 429, 500)),
    ],
)
def test_exit_codes(error: errors.HorariumError, code: int) -> None:
    assert main.exit_code(error) == code
    assert main.describe(error)


def test_every_fault_is_described() -> None:
    error = errors.InvalidError([errors.Fault("/a", "x"), errors.Fault("/b", "y")])
    assert main.describe(error) == "The input is not valid\n  /a: x\n  /b: y"


def test_a_secret_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "key"
    secret_file.write(file, "one")
    secret_file.write(file, "two\n")
    assert secret_file.read(file) == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["key"]
    assert secret_file.read(tmp_path / "none") is None


def test_dev_keeps_a_profile_of_its_own_and_leaves_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "conf" / "profile.toml"
    monkeypatch.setenv("HORARIUM_PROFILE", str(file))
    (tmp_path / "api_key").write_text("hrm_x\n", encoding="utf-8")
    for port in (1, 2):
        assert dev_profile.write(f"http://127.0.0.1:{port}", tmp_path) == file
        assert f'url = "http://127.0.0.1:{port}"' in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    mine = 'url = "https://production.example"\napi_key = "k"\n'
    file.write_text(mine, encoding="utf-8")
    assert dev_profile.write("http://127.0.0.1:3", tmp_path) is None
    assert file.read_text(encoding="utf-8") == mine


def test_the_zone_of_this_machine(tmp_path: Path) -> None:
    assert local_zone.name(tmp_path) is None
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Kolkata")
    assert local_zone.name(tmp_path) == "Asia/Kolkata"
    (tmp_path / "timezone").write_text("Europe/Riga\n", encoding="ascii")
    assert local_zone.name(tmp_path) == "Europe/Riga"


def test_the_doctor_on_the_schema() -> None:
    everything = migrator.migrations()
    assert diagnosis.schema(migrator.Status((), everything)).advice == "run `horarium db init`"
    assert diagnosis.schema(migrator.Status((1,), everything[:1])).level is Level.FAIL
    assert diagnosis.schema(migrator.Status((1,), ())).level is Level.OK


def test_the_doctor_on_clocks() -> None:
    second = timedelta(seconds=1)
    assert diagnosis.clock(NOW, NOW - second, NOW + second).level is Level.OK
    assert diagnosis.clock(NOW + 4 * second, NOW, NOW + second).level is Level.WARN
    assert "3.00 s" in diagnosis.clock(NOW - 3 * second, NOW, NOW + second).text


@pytest.mark.parametrize(("age_s", "level"), [(10, Level.OK), (301, Level.WARN), (3600, Level.FAIL)])
def test_the_doctor_on_old_snapshots(age_s: float, level: Level) -> None:
    check = diagnosis.snapshot(store.Snapshot(age_s, 42, "psql"))
    assert check.level is level
    assert ("pg_terminate_backend(42)" in check.advice) is (level is not Level.OK)
    assert diagnosis.snapshot(None).level is Level.OK


def test_the_doctor_on_dead_rows_leaders_and_the_server() -> None:
    assert diagnosis.dead_rows([store.DeadRows("runs", 10, 90_000)]).level is Level.OK
    assert diagnosis.dead_rows([store.DeadRows("runs", 10, 200_000)]).level is Level.WARN
    assert diagnosis.leadership(store.Leadership(0, 16)).level is Level.OK
    assert diagnosis.leadership(store.Leadership(3, 16)).level is Level.FAIL
    assert diagnosis.postgresql(store.Room(10, 100, 150_004)).level is Level.OK
    assert diagnosis.postgresql(store.Room(90, 100, 180_000)).level is Level.WARN
    assert diagnosis.postgresql(store.Room(1, 100, 140_010)).level is Level.FAIL
