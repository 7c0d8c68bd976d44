"""The server of `horarium dev` and its workers, on a PostgreSQL that runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from typing import Any

from horarium import config, errors, server
from horarium.cli import client, dev_children, dev_profile, dev_stack, first_key, secret_file
from horarium.store import migrator
from horarium.store.database import Database

SAMPLES = "horarium.cli.sample_jobs:h"
WATCH_EVERY_S = 1.0


async def run(
    wanted: dev_stack.Wanted, address: str, stop: asyncio.Event, announce: dev_stack.Announce, say: dev_stack.Say
) -> None:
    """Serve the database at `address` until `stop`; the workers end first, then the server."""
    settings = _settings(wanted, address)
    is_new = await _prepare(settings, wanted)
    ready: asyncio.Future[server.ServerInfo] = asyncio.get_running_loop().create_future()
    stop_server = asyncio.Event()

    def on_ready(info: server.ServerInfo) -> None:
        dev_stack.stop_on_signals(stop)  # uvicorn has put its own handlers in place, which would stop the server first
        ready.set_result(info)

    serving = asyncio.create_task(server.serve(settings, ready=on_ready, stop=stop_server))
    serving.add_done_callback(lambda _: ready.cancel())
    try:
        await asyncio.wait({ready})
        if not ready.cancelled():
            await _work(wanted, ready.result().url, is_new, stop, serving, announce, say)
    finally:
        say("stopping the server")
        stop_server.set()
        await serving


def _settings(wanted: dev_stack.Wanted, address: str) -> config.Settings:
    """The usual settings, with log lines fit for a terminal where nothing else was asked for."""
    quiet = {"log_format": "console", "log_level": "warning"}
    written = config.surroundings()
    flags: dict[str, Any] = {name: value for name, value in quiet.items() if name not in written}
    own = {"database_url": address, "host": dev_stack.HOST, "port": wanted.port, "env": "dev"}
    return config.load({**flags, **own}).settings


async def _prepare(settings: config.Settings, wanted: dev_stack.Wanted) -> bool:
    """Bring the schema up to date and see to the key; True when the database is new."""
    database = Database(settings.database_url, pool_size=1)
    await database.open()
    try:
        async with database.connection() as connection:
            await migrator.migrate(connection, shards=settings.shards)
    finally:
        await database.close()
    return await first_key.keep(settings, wanted.key_file)


async def _work(
    wanted: dev_stack.Wanted,
    url: str,
    is_new: bool,
    stop: asyncio.Event,
    serving: asyncio.Task[None],
    announce: dev_stack.Announce,
    say: dev_stack.Say,
) -> None:
    """Run the workers until `stop`, or until the server ends by itself."""
    wanted.workers_log.unlink(missing_ok=True)
    children = dev_children.Children()
    try:
        for command in _commands(wanted, url):
            children.start(command)
        if wanted.samples:
            await asyncio.to_thread(_make_samples, wanted, url, is_new, say)
        announce(dev_stack.Running(url, dev_profile.write(url, wanted.data_dir.absolute())))
        while not stop.is_set() and not serving.done():
            for title, status in children.ended().items():
                say(f"the {title} ended with status {status}; its output is above or in {wanted.workers_log}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), WATCH_EVERY_S)
    finally:
        say("stopping the workers")
        await children.stop()


def _commands(wanted: dev_stack.Wanted, url: str) -> Iterator[dev_children.Command]:
    environment = {
        "HORARIUM_URL": url,
        "HORARIUM_API_KEY_FILE": str(wanted.key_file),
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


def _make_samples(wanted: dev_stack.Wanted, url: str, is_new: bool, say: dev_stack.Say) -> None:
    """The sample that no application can declare; and on the first day, something to look at within seconds."""
    speaker = client.Client([url], secret_file.read(wanted.key_file) or "")
    body = {
        "interval_s": 30,
        "target": {"http": {"url": f"{url}/healthz", "method": "GET"}},
        "managed_by": "dev:samples",
        "description": "Asks the server whether it is well.",
    }
    try:
        speaker.request("PUT", "/v1/jobs/name:sample.http", body=body)
        for handler in ("sample.flaky", "sample.hopeless") if is_new else ():
            once = {"target": {"handler": handler}, "run_at": "now", "retry": {"backoff": "fixed", "base_s": 2}}
            speaker.post("/v1/jobs", once)
    except errors.HorariumError as error:  # changed by hand, say: a sample is not worth an end
        say(f"some sample jobs could not be made: {error}")
