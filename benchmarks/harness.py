"""What the benchmarks share: a fresh embedded cluster, jobs to begin with, and how a result is told.

Machines are noisy: a figure counts as a ratio to the floor (bare SQL doing the same row work) taken in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import uvloop

from horarium.domain import schedule, zones
from horarium.embedded.cluster import EmbeddedCluster
from horarium.store import migrator

SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "16GB", "checkpoint_timeout": "30min"}
PAYLOAD = '{"a":1,"b":"some payload of moderate length, about a hundred bytes in all, as most of them are."}'


@dataclass(frozen=True, slots=True)
class Result:
    """One figure. `floor` and `ratio` are None where there is nothing to hold it against; `ok`: the goal was reached."""

    bench: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    goal: str = ""
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """How a benchmark was called."""

    quick: bool
    as_json: bool


Measure = Callable[[str, Options], Coroutine[Any, Any, None]]


def run(description: str | None, measure: Measure, **settings: str) -> None:
    """A benchmark's `main`: read the command line, start a cluster, measure. `settings` are the cluster's."""
    given = options(description or "")
    with cluster(**settings) as started:
        uvloop.run(measure(started.dsn, given))


def options(description: str) -> Options:
    """Read the command line. From here on SIGTERM ends a benchmark in order, its processes and its cluster with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, at most 40 seconds")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON line")
    found = parser.parse_args()
    return Options(found.quick, found.json)


def say(given: Options, text: str) -> None:
    """Something on the way, for people."""
    if not given.as_json:
        print(text, flush=True)


def tell(*results: Result) -> None:
    """The figures, one JSON object a line; the last line is the headline."""
    facts = {"machine": machine(), "commit": commit()}
    for result in results:
        rounded = {key: _rounded(value) for key, value in asdict(result).items()}
        print(json.dumps(rounded | facts, ensure_ascii=False), flush=True)


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest of the values that `part` of them do not exceed: 0.5 the median, 0.99 all but one in a hundred."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, round(part * len(ordered)) - 1))]


def machine() -> str:
    """The machine in a few words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return f"{os.cpu_count()} cores, {memory} GiB, {platform.machine()}, Python {platform.python_version()}"


def commit() -> str:
    """The commit that is measured."""
    root = Path(__file__).parent.parent
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


@contextmanager
def cluster(**settings: str) -> Iterator[EmbeddedCluster]:
    """A cluster of its own in a temporary directory, durable as in production.

    To look into it: `BENCH_POSTGRES` adds settings (`name=value;name=value`), and PostgreSQL's log is left in `BENCH_LOG`.
    """
    more = dict(pair.split("=", 1) for pair in os.environ.get("BENCH_POSTGRES", "").split(";") if pair)
    with (
        tempfile.TemporaryDirectory(prefix="horarium-bench-", ignore_cleanup_errors=True) as folder,
        EmbeddedCluster(Path(folder) / "data", settings=SETTINGS | settings | more) as started,
    ):
        try:
            yield started
        finally:
            if "BENCH_LOG" in os.environ:
                shutil.copy(started.log_file, os.environ["BENCH_LOG"])


async def connect(url: str) -> asyncpg.Connection:
    """A connection that finds Horarium's tables."""
    return await asyncpg.connect(url, server_settings={"search_path": "horarium, public"})


async def fresh(url: str, shards: int = 16) -> asyncpg.Connection:
    """An empty, migrated schema, and a connection to it."""
    connection = await connect(url)
    await connection.execute("DROP SCHEMA IF EXISTS horarium CASCADE")
    await migrator.migrate(connection, shards=shards)
    return connection


async def create_database(url: str, name: str) -> str:
    """A further database of the cluster, for a benchmark that looks at several in turn; returns its address."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def past_hour(connection: asyncpg.Connection) -> datetime:
    """The last full hour. Waits when the next one is so near that the look-ahead would see it as well."""
    while await connection.fetchval("SELECT extract(epoch FROM now())::bigint % 3600 >= 3600 - 20"):
        await asyncio.sleep(1)
    hour: datetime = await connection.fetchval("SELECT date_trunc('hour', now())")
    return hour


def schedules(count: int = 300) -> list[str]:
    """Keys of `count` different schedules in twenty zones, each due at every full hour."""
    names = [f"Etc/GMT{hours:+d}" for hours in range(-9, 10) if hours] + ["UTC", "Etc/UTC"]
    expressions = ["0 * * * *", *(f"0 * 1-{day},{day + 1}-31 * *" for day in range(2, 30))]
    keys = []
    for index in range(count):
        expression, zone = expressions[index // len(names) % len(expressions)], names[index % len(names)]
        keys.append(schedule.encode(schedule.Schedule(schedule.Cron(expression, zone))))
    return keys


async def seed(
    connection: asyncpg.Connection, count: int, due: datetime, keys: list[str], target: str = "noop", shards: int = 16
) -> None:
    """Define `count` jobs whose timers are due at one instant, spread over the schedules and the first `shards` shards."""
    first = await connection.fetchval("SELECT count(*) FROM jobs")
    await connection.execute(
        """
        INSERT INTO jobs (id, shard, name, target, payload, schedule)
        SELECT (lpad(to_hex(1700000000000 + g), 12, '0') || '7' || lpad(to_hex(g % $5::integer), 3, '0') || '8'
                || substr(md5(g::text), 1, 15))::uuid,
               g % $5, 'job-' || g, jsonb_build_object('handler', $3::text), $4::json, '0 * * * *'
        FROM generate_series($1::integer + 1, $1::integer + $2::integer) g
        """,
        first,
        count,
        target,
        PAYLOAD,
        shards,
    )
    await connection.execute(
        """
        INSERT INTO timers (job_id, shard, scheduled_for, due_at, priority, job_version, tenant_id, queue, target_key,
                            schedule_key, policy_key, zone_version)
        SELECT j.id, j.shard, $1, $1, 5, 1, 'default', 'default', $3,
               ($2::text[])[1 + abs(hashtext(j.name)) % array_length($2::text[], 1)], 'g=604800', $4
        FROM jobs j WHERE NOT EXISTS (SELECT FROM timers t WHERE t.job_id = j.id)
        """,
        due,
        keys,
        target,
        zones.data_version(),
    )


async def settle(connection: asyncpg.Connection) -> None:
    """Statistics and a checkpoint, so that neither falls into the measurement."""
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")


def _rounded(value: object) -> object:
    return round(value, 4 if abs(value) < 10 else 1) if isinstance(value, float) else value


def python(*arguments: str) -> list[str]:
    """The command line of this interpreter."""
    return [sys.executable, *arguments]
