from __future__ import annotations

import dataclasses
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


def holder(kind: str = "session", age_s: float | None = 10.0, xids: int = 5) -> store.Holder:
    return store.Holder(kind, "ada", 42, "psql", "idle in transaction", age_s, age_s, xids)


@pytest.mark.parametrize(("age_s", "level"), [(10, Level.OK), (301, Level.WARN), (3600, Level.FAIL)])
def test_the_doctor_on_old_snapshots(age_s: float, level: Level) -> None:
    (check,) = diagnosis.snapshots([holder(age_s=age_s)])
    assert check.level is level
    assert ("pg_terminate_backend(42)" in check.advice) is (level is not Level.OK)
    assert diagnosis.snapshots([])[0].level is Level.OK


def test_the_doctor_tells_who_holds_a_snapshot_and_since_when() -> None:
    found = [holder("slot", None, 2_000_000), holder("prepared", 7200.0), *[holder(age_s=600.0)] * 9]
    slot, prepared, session = diagnosis.snapshots(found)
    assert (slot.level, prepared.level, session.level) == (Level.WARN, Level.FAIL, Level.WARN)
    assert "replication slot ada (idle in transaction) has held a snapshot for 2000000 transactions" in slot.text
    assert "pg_drop_replication_slot('ada')" in slot.advice
    assert "ROLLBACK PREPARED 'ada'" in prepared.advice
    assert session.text.startswith("process 42 of ada (psql), idle in transaction has held a snapshot for 10 min")
    assert "its latest statement began 10 min ago" in session.text
    assert diagnosis.snapshots([holder("slot", None, 10)])[0].level is Level.OK


def table(**members: object) -> store.Table:
    usual = store.Table("runs", 10, 5, 8192, NOW - timedelta(minutes=3), True, 8000)
    return dataclasses.replace(usual, **members)  # type: ignore[arg-type]


def test_the_doctor_on_tables() -> None:
    (well,) = diagnosis.tables([table()], NOW)
    assert (well.level, well.name) == (Level.OK, "table runs")
    assert well.text == "5 of 15 rows dead (33 %), vacuumed 3 min ago, about 0 MiB to spare"
    assert "never vacuumed" in diagnosis.tables([table(vacuumed_at=None)], NOW)[0].text
    ill = [table(dead=200_000), table(bytes=4 * 1024**3), table(is_vacuumed=False)]
    checks = diagnosis.tables(ill, NOW)
    assert [check.level for check in checks] == [Level.WARN] * 3
    assert [check.advice.partition(",")[0] for check in checks] == [
        "look for old snapshots",
        "at a quiet time: VACUUM FULL horarium.runs",
        "switch autovacuum_enabled of horarium.runs on again",
    ]
    assert diagnosis.tables([table(bytes=4 * 1024**3, needed=None)], NOW)[0].level is Level.OK


@pytest.mark.parametrize(
    ("upkeep", "levels"),
    [
        (store.Upkeep(True, True, 10, 200_000_000), [Level.OK, Level.OK]),
        (store.Upkeep(False, True, 10, 200_000_000), [Level.FAIL, Level.OK]),
        (store.Upkeep(True, True, 400_000_000, 200_000_000), [Level.OK, Level.WARN]),
        (store.Upkeep(True, True, 1_600_000_000, 200_000_000), [Level.OK, Level.FAIL]),
    ],
)
def test_the_doctor_on_upkeep(upkeep: store.Upkeep, levels: list[Level]) -> None:
    assert [check.level for check in diagnosis.upkeep(upkeep)] == levels


def test_the_doctor_on_leaders_and_the_server() -> None:
    assert diagnosis.leadership(store.Leadership(0, 16)).level is Level.OK
    assert diagnosis.leadership(store.Leadership(3, 16)).level is Level.FAIL
    assert diagnosis.postgresql(store.Room(10, 100, 150_004)).level is Level.OK
    assert diagnosis.postgresql(store.Room(90, 100, 180_000)).level is Level.WARN
    assert diagnosis.postgresql(store.Room(1, 100, 140_010)).level is Level.FAIL
