"""What `horarium dev` runs: PostgreSQL, the server in this process, workers as children; stopped in reverse order.

The server never runs user code: handlers run in the children. Whatever way this process ends, the kernel stops the
children and PostgreSQL with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horarium import config, errors, server
from horarium.cli import client, dev_children, dev_profile, first_key, secret_file
from horarium.embedded import EmbeddedCluster
from horarium.store import migrator
from horarium.store.database import Database

SAMPLES = "horarium.cli.sample_jobs:h"
WATCH_EVERY_S = 1.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to run and where. `app` is the application whose handlers a worker of its own runs (`app.jobs:h`)."""

    data_dir: Path
    port: int
    app: str | None = None
    samples: bool = True

    @property
    def key_file(self) -> Path:
        """Where the API key is kept."""
        return self.data_dir / "api_key"

    @property
    def workers_log(self) -> Path:
        """Where the built-in workers say what they have to say."""
        return self.data_dir / "workers.log"


@dataclass(frozen=True, slots=True)
class Running:
    """What was started: where it answers, and the profile that was written (None: somebody's own was left alone)."""

    url: str
    profile: Path | None


async def run(wanted: Wanted, announce: Callable[[Running], None], say: Say) -> None:
    """Run everything until SIGINT, SIGTERM or SIGHUP; `announce` is called once it works.

    EmbeddedPostgresError when the data directory is in use, ConfigurationError when the port is taken.
    """
    stop = asyncio.Event()
    _stop_on_signals(stop)
    async with _postgres(wanted, say) as address:
        settings = _settings(wanted, address)
        is_new = await _prepare(settings, wanted)
        if not stop.is_set():
            await _serve(settings, wanted, is_new, stop, announce, say)
        say("stopping PostgreSQL")


@contextlib.asynccontextmanager
async def _postgres(wanted: Wanted, say: Say) -> AsyncIterator[str]:
    cluster = EmbeddedCluster(wanted.data_dir, listener=say)
    await asyncio.to_thread(cluster.start)
    try:
        yield cluster.socket_dsn or cluster.dsn
    finally:
        await asyncio.to_thread(cluster.stop)


def _settings(wanted: Wanted, address: str) -> config.Settings:
    """The usual settings, with a database and log lines fit for a terminal where nothing else was asked for."""
    quiet = {"log_format": "console", "log_level": "warning"}
    written = config.surroundings()
    flags: dict[str, Any] = {name: value for name, value in quiet.items() if name not in written}
    return config.load({**flags, "database_url": address, "port": wanted.port, "env": "dev"}).settings


async def _prepare(settings: config.Settings, wanted: Wanted) -> bool:
    """Bring the schema up to date and see to the key; True when the database is new."""
    database = Database(settings.database_url, pool_size=1)
    await database.open()
    try:
        async with database.connection() as connection:
            await migrator.migrate(connection, shards=settings.shards)
    finally:
        await database.close()
    return await first_key.keep(settings, wanted.key_file)


async def _serve(
    settings: config.Settings,
    wanted: Wanted,
    is_new: bool,
    stop: asyncio.Event,
    announce: Callable[[Running], None],
    say: Say,
) -> None:
    """The server, and while it answers the workers."""
    ready: asyncio.Future[server.ServerInfo] = asyncio.get_running_loop().create_future()
    stop_server = asyncio.Event()

    def on_ready(info: server.ServerInfo) -> None:
        _stop_on_signals(stop)  # uvicorn has put its own handlers in place, which would stop the server first
        ready.set_result(info)

    serving = asyncio.create_task(server.serve(settings, ready=on_ready, stop=stop_server))
    serving.add_done_callback(lambda _: ready.cancel())
    try:
        await asyncio.wait({ready})
        if not ready.cancelled():
            await _work(wanted, ready.result().url, is_new, stop, serving, announce, say)
    finally:
        stop_server.set()
        say("stopping the server")
        await serving


async def _work(
    wanted: Wanted,
    url: str,
    is_new: bool,
    stop: asyncio.Event,
    serving: asyncio.Task[None],
    announce: Callable[[Running], None],
    say: Say,
) -> None:
    children = dev_children.Children()
    try:
        for command in _commands(wanted, url):
            children.start(command)
        if wanted.samples:
            try:
                await asyncio.to_thread(_make_samples, wanted, url, is_new)
            except errors.HorariumError as error:  # renamed by hand, say: a sample is not worth an end
                say(f"some sample jobs could not be made: {error}")
        announce(Running(url, dev_profile.write(url, wanted.data_dir.absolute())))
        while not stop.is_set() and not serving.done():
            for title, status in children.ended().items():
                say(f"the {title} ended with status {status}; its output is in {wanted.workers_log}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), WATCH_EVERY_S)
    finally:
        say("stopping the workers")
        await children.stop()


def _commands(wanted: Wanted, url: str) -> Iterator[dev_children.Command]:
    environment = {
        "HORARIUM_URL": url,
        "HORARIUM_API_KEY_FILE": str(wanted.key_file.absolute()),
        "HORARIUM_API_KEY": "",
        # The server's own address is a private one; the sample job calls it.
        "HORARIUM_ALLOW_PRIVATE_TARGETS": os.environ.get("HORARIUM_ALLOW_PRIVATE_TARGETS") or "127.0.0.0/8,::1/128",
    }
    grace = ["--grace", f"{dev_children.GRACE_S}s"]
    log = wanted.workers_log
    yield dev_children.Command("HTTP worker", ["worker", "--http", *grace], environment, log)
    if wanted.samples:
        yield dev_children.Command("worker of the samples", ["worker", SAMPLES, *grace], environment, log)
    if wanted.app:
        yield dev_children.Command(f"worker of {wanted.app}", ["worker", wanted.app, "--reload", *grace], environment)


def _make_samples(wanted: Wanted, url: str, is_new: bool) -> None:
    """The sample that no application can declare; and on the first day, something to look at within seconds."""
    speaker = client.Client([url], secret_file.read(wanted.key_file) or "")
    body = {
        "interval_s": 30,
        "target": {"http": {"url": f"{url}/healthz", "method": "GET"}},
        "managed_by": "sdk:samples",
        "description": "Asks the server whether it is well.",
    }
    speaker.request("PUT", "/v1/jobs/name:sample.http", body=body)
    if is_new:
        for handler in ("sample.flaky", "sample.hopeless"):
            speaker.post("/v1/jobs", {"target": {"handler": handler}, "run_at": "now"})


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
