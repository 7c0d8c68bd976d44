"""`horarium doctor --audit`: the books of a database, as people and programs read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import click
import pytest
from click.testing import Result

from horarium.cli import auditing, options
from tests.cli.story import read

Cli = Callable[..., Result]

# An hourly job that was made two days ago, its timer, and a leader. Ticks are judged since history is kept: without days of its
# own it is kept since ever, whatever time of the day it is.
_JOB = """
DO $$
DECLARE day regclass;
BEGIN
    FOR day IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'horarium.history'::regclass
                                                  AND inhrelid <> 'horarium.history_default'::regclass
    LOOP EXECUTE 'DROP TABLE ' || day; END LOOP;
END $$;
INSERT INTO jobs (id, shard, target, name, schedule, created_at)
VALUES ('01900000-0000-7003-8000-000000000001', 3, '{"handler": "w"}', 'hourly', '0 * * * *', now() - interval '2 days');
INSERT INTO timers (job_id, shard, scheduled_for, due_at, priority, job_version, tenant_id, queue, target_key, schedule_key)
SELECT id, 3, at, at, 5, 1, 'default', 'default', 'w', '["cron","0 * * * *","UTC"]'
FROM jobs, LATERAL (SELECT date_trunc('hour', now()) + interval '1 hour' AS at) AS following;
INSERT INTO history (id, job_id, scheduled_for, ready_at, fencing_token, job_version, shard, priority, attempt, state, trigger,
                     tenant_id, queue, target_key)
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '8003' || '8' || substr(md5(at::text), 1, 15))::uuid,
       jobs.id, at, at, 1, 1, 3, 5, 1, 'succeeded', 'schedule', 'default', 'default', 'w'
FROM jobs, generate_series(date_trunc('hour', now()) - interval '60 hours', now(), interval '1 hour') AS at
WHERE at > created_at;
UPDATE shards SET leader = 'n', lease_expires_at = now() + interval '1 hour';
"""
JOB_ID = "01900000-0000-7003-8000-000000000001"


@pytest.fixture
def audited_url(database_url: str) -> str:
    """A database whose books balance."""
    execute(database_url, _JOB)
    return database_url


def execute(url: str, statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statements)
        await connection.close()

    asyncio.run(run())


def test_books_that_balance(cli: Cli, audited_url: str) -> None:
    well = cli("doctor", "--audit", "--since", "40h", "--database-url", audited_url)
    assert (well.exit_code, well.stdout) == (0, "")
    assert "The books balance" in well.stderr
    assert read(cli("doctor", "--audit", "--database-url", audited_url, "-o", "json").stdout) == []


def test_what_is_wrong_is_listed(cli: Cli, audited_url: str) -> None:
    execute(audited_url, "DELETE FROM history WHERE scheduled_for = date_trunc('hour', now()) - interval '30 hours'")
    assert cli("doctor", "--audit", "--database-url", audited_url).exit_code == 0  # longer ago than a day
    ill = cli("doctor", "--audit", "--since", "40h", "--database-url", audited_url, "-o", "json")
    assert ill.exit_code == 1
    (fault,) = read(ill.stdout)
    assert (fault["fault"], fault["job_id"], fault["count"], fault["repaired"]) == ("missing_ticks", JOB_ID, 1, None)
    assert datetime.fromisoformat(fault["first"]) == datetime.fromisoformat(fault["last"])
    table = cli("doctor", "--audit", "--since", fault["first"][:10] + "T00:00:00Z", "--database-url", audited_url)
    assert "missing_ticks" in table.stdout
    lines = cli("doctor", "--audit", "--since", "40h", "--database-url", audited_url, "-o", "jsonl").stdout.splitlines()
    assert len(lines) == 1


def test_a_repair_is_told_and_leaves_nothing_wrong(cli: Cli, audited_url: str) -> None:
    execute(audited_url, "DELETE FROM timers")
    told = cli("doctor", "--audit", "--database-url", audited_url)
    assert told.exit_code == 1
    assert "--repair arms it again" in told.stdout
    mended = cli("doctor", "--audit", "--repair", "--database-url", audited_url)
    assert mended.exit_code == 0
    assert "armed it for" in mended.stdout
    assert cli("doctor", "--audit", "--database-url", audited_url).exit_code == 0


def test_several_databases(audited_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, each fault with the name of its database."""
    execute(audited_url, "DELETE FROM timers")
    invocation = options.Invocation(output="json")
    assert auditing.run(invocation, [("one", audited_url), ("two", audited_url)], auditing.Asked()) == 1
    assert [(row["database"], row["fault"]) for row in read(capsys.readouterr().out)] == [
        ("one", "missing_timer"),
        ("two", "missing_timer"),
    ]


def test_what_cannot_be_asked(cli: Cli, empty_database_url: str) -> None:
    assert cli("doctor", "--repair").exit_code == 2
    assert cli("doctor", "--audit", "--since", "yesterday", "--database-url", "postgresql://h/d").exit_code == 2
    without = cli("doctor", "--audit", "--database-url", empty_database_url)
    assert without.exit_code != 0
    assert "horarium db" in without.stderr


def test_since_when() -> None:
    assert auditing.since("36h") == timedelta(hours=36)
    assert auditing.since("2026-12-01T00:00:00Z") == datetime(2026, 12, 1, tzinfo=UTC)
    assert auditing.since("2026-12-01") == datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(click.BadParameter):
        auditing.since("soon")
