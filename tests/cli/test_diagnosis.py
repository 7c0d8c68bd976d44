from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from horarium.cli import diagnosis
from horarium.cli.diagnosis import Level
from horarium.store import diagnosis as store
from horarium.store import migrator

NOW = datetime(2026, 12, 1, 2, tzinfo=UTC)


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
