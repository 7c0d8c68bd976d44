"""`horarium worker`: from its options to a running worker, and to an exit status.

0  stopped as asked          1  the server refused the worker          2  the settings are wrong
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from horarium import errors
from horarium.protocol import messages
from horarium.sdk import client, executor, loader, processes, profile, queues, registrar, supervisor, threads, worker
from horarium.sdk import nodes as nodes_

# Found by name: the built-in targets stand on the SDK, which knows only that each module has `serving(environ)`.
BUILT_IN = {messages.HTTP_HANDLER: "horarium.targets.http", messages.COMMAND_HANDLER: "horarium.targets.command"}

_log = logging.getLogger("horarium.worker")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """What one worker process is told. `app` may be None when it serves built-in targets only."""

    app: str | None
    queues: str | None
    slots: int
    grace_s: float
    http: bool = False
    commands: bool = False
    prune: bool = False


class Prepared(NamedTuple):
    """What was read and checked before the worker starts."""

    application: client.Horarium | None
    nodes: nodes_.Nodes
    options: worker.Options


def run_worker(
    app: str | None,
    *,
    queues: str | None,
    slots: int,
    grace_s: float,
    reload: bool,
    http: bool = False,
    commands: bool = False,
    processes: int = 1,
    url: str | None = None,
    api_key: str | None = None,
    prune: bool = False,
) -> int:
    """Run a worker until SIGTERM or SIGINT (a second one ends it at once); returns the exit status.

    `app` is `module:attribute`, or None for built-in targets only. `queues` is read by `horarium.sdk.queues`. `http` and
    `commands`: carry out HTTP and command targets, too. `reload`: start anew when a Python file under the working
    directory changes. `processes`: so many worker processes, each with `slots`. `url` and `api_key` count for the
    application as well, so they go into this process's environment.
    """
    given = {"HORARIUM_URL": url, "HORARIUM_API_KEY": api_key}
    os.environ.update({name: value for name, value in given.items() if value})
    settings = Settings(app, queues, slots, grace_s, http, commands, prune)
    log_to_stderr()
    if reload:
        changed = supervisor.Watch(Path.cwd()).has_changed
        return supervisor.Supervisor(lambda: _spawn(settings)).run_reloading(changed)
    if processes > 1:
        return supervisor.Supervisor(lambda: _spawn(settings), processes).run()
    return run_one(settings)


def run_one(settings: Settings, *, supervised: bool = False) -> int:
    """Run one worker in this process. `supervised`: stop when standard input ends, since then the parent is gone."""
    import uvloop

    try:
        prepared = prepare(settings)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, prepared, supervised))
    except (errors.ConfigurationError, errors.InvalidError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - a program's last word
        return supervisor.REFUSED
    except errors.RequestError as error:
        print(f"error: the server refuses this worker: {error}", file=sys.stderr)  # noqa: T201 - likewise
        return 1
    return 0


def prepare(settings: Settings) -> Prepared:
    """Read and check everything; ConfigurationError or InvalidError before anything has begun."""
    if settings.app is None and not settings.http and not settings.commands:
        raise errors.ConfigurationError(
            "nothing to run: name an application, such as app.jobs:h, or serve HTTP targets"
        )
    if not 1 <= settings.slots <= messages.MAX_SLOTS:
        raise errors.ConfigurationError(f"slots: {settings.slots} is not between 1 and {messages.MAX_SLOTS}")
    served = queues.parse(settings.queues)
    application = None
    if settings.app is not None:
        loader.search_working_directory()
        application = loader.load(settings.app)
        registrar.declared(application)
        if not application.handlers:
            _log.warning("%s declares no handlers: this worker has nothing to run", settings.app)
    options = worker.Options(served.weights, served.strict, settings.slots, settings.grace_s)
    return Prepared(application, nodes_.Nodes(profile.resolve), options)


async def _serve(settings: Settings, prepared: Prepared, supervised: bool) -> None:
    async with contextlib.AsyncExitStack() as stack:
        carriers: dict[str, worker.Carrier] = {}
        if prepared.application is not None:
            carriers |= await _handlers(stack, settings, prepared.application)
        for name, wanted in ((messages.HTTP_HANDLER, settings.http), (messages.COMMAND_HANDLER, settings.commands)):
            if wanted:
                serving = importlib.import_module(BUILT_IN[name]).serving(os.environ)
                carriers[name] = await stack.enter_async_context(serving)
        running = worker.Worker(prepared.nodes, carriers, prepared.options)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        if supervised:
            loop.add_reader(sys.stdin, _parent_is_gone, loop, running)
        names = ", ".join(queue.name for queue in prepared.options.queues)
        _log.info("worker %s: %d slots, queues %s", running.info.id, settings.slots, names)
        await running.run()


async def _handlers(
    stack: contextlib.AsyncExitStack, settings: Settings, application: client.Horarium
) -> dict[str, worker.Carrier]:
    """Carriers for the application's handlers; its schedules are registered meanwhile."""
    pool, children = threads.Threads(), processes.Processes(settings.app or "")
    stack.callback(pool.close)
    stack.push_async_callback(children.close)
    stack.push_async_callback(application.close)
    registering = asyncio.create_task(registrar.register(application, prune=settings.prune))
    stack.callback(registering.cancel)
    return executor.carriers_of(application.handlers, pool, children)


def _spawn(settings: Settings) -> subprocess.Popen[bytes]:
    """A child process with one worker."""
    command = [sys.executable, "-m", "horarium.sdk.main", json.dumps(dataclasses.asdict(settings))]
    return subprocess.Popen(command, process_group=0, stdin=subprocess.PIPE)  # noqa: S603 - our own interpreter and module


def _parent_is_gone(loop: asyncio.AbstractEventLoop, running: worker.Worker) -> None:
    loop.remove_reader(sys.stdin)
    _log.warning("the process that started this worker is gone: stopping")
    running.stop()


def log_to_stderr() -> None:
    """Show what workers and handlers log, unless the program that calls has set logging up."""
    if not logging.root.handlers:
        logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", level=logging.INFO)


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(run_one(Settings(**json.loads(sys.argv[1])), supervised=True))
