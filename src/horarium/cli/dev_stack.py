"""What `horarium dev` runs: PostgreSQL, the server in this process, workers as children; stopped in reverse order.

The server never runs user code: handlers run in the children. Whatever way this process ends, the kernel stops the
children and PostgreSQL with it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from horarium import errors
from horarium.embedded import EmbeddedCluster

HOST = "127.0.0.1"

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
        return self.data_dir.absolute() / "api_key"

    @property
    def workers_log(self) -> Path:
        """Where the built-in workers say what they have to say."""
        return self.data_dir.absolute() / "workers.log"


@dataclass(frozen=True, slots=True)
class Running:
    """What was started: where it answers, and the profile that was written (None: somebody's own was left alone)."""

    url: str
    profile: Path | None


Announce = Callable[[Running], None]


async def run(wanted: Wanted, announce: Announce, say: Say) -> None:
    """Run everything until SIGINT, SIGTERM or SIGHUP; `announce` is called once it works.

    EmbeddedPostgresError when the data directory is in use, ConfigurationError when the port is taken.
    """
    stop = asyncio.Event()
    stop_on_signals(stop)
    check_port(wanted.port)
    cluster = EmbeddedCluster(wanted.data_dir, listener=say)
    starting = asyncio.create_task(asyncio.to_thread(cluster.start))
    try:
        await asyncio.sleep(0)  # PostgreSQL starts while the server is imported: a second each
        from horarium.cli import dev_node

        await starting
        await dev_node.run(wanted, cluster.socket_dsn or cluster.dsn, stop, announce, say)
    finally:
        await asyncio.wait({starting})
        if cluster.is_running:
            say("stopping PostgreSQL")
        await asyncio.to_thread(cluster.stop)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Have the signals that end a program set an event instead; called again where somebody has changed that."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)


def check_port(port: int) -> None:
    """Tell at once that a port is taken, before a database is started for nothing."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise errors.ConfigurationError(
                f"port {port} cannot be used: {error.strerror}; choose another with --port (0 takes a free one)"
            ) from None
