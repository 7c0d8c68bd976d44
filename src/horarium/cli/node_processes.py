"""The parent of several nodes on one machine: they share the public port, and each has one of its own for its peers.

One that dies is started again; SIGTERM and SIGINT go on to all. The parent holds the port and serves nothing itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from horarium import config, server
from horarium.sdk import supervisor


class Nodes:
    """Spawns nodes with the settings of their parent, and tells once when all of them answer."""

    def __init__(self, count: int, environment: Mapping[str, str], when_ready: Callable[[], None]) -> None:
        self._count = count
        self._environment = environment
        self._when_ready = when_ready
        self._starting: list[subprocess.Popen[bytes]] = []
        self._living: list[subprocess.Popen[bytes]] = []
        self._answering = 0

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start one node."""
        node = subprocess.Popen(
            [sys.executable, "-m", "horarium.cli.node_process"],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert node.stdout is not None  # noqa: S101 - it is a pipe
        os.set_blocking(node.stdout.fileno(), False)
        self._starting.append(node)
        self._living.append(node)
        return node

    def look(self) -> None:
        """See which of the nodes that are starting answer by now, and close the pipes of those that have ended."""
        still: list[subprocess.Popen[bytes]] = []
        for node in self._starting:
            if node.stdout is not None and node.stdout.read(64):
                self._answered()
            elif node.poll() is None:
                still.append(node)
        self._starting = still
        ended = [node for node in self._living if node.poll() is not None]
        self._living = [node for node in self._living if node not in ended]
        for node in ended:
            close_pipes(node)

    def close(self) -> None:
        """Close the pipes of all that are left."""
        for node in self._living:
            close_pipes(node)

    def _answered(self) -> None:
        self._answering += 1
        if self._answering == self._count:
            self._when_ready()


def serve(settings: config.Settings, flags: Mapping[str, Any], count: int, when_ready: Callable[[str], None]) -> int:
    """Run so many nodes until told to stop; returns the worst exit status. `when_ready` gets the address, once all answer.

    ConfigurationError when the port is taken.
    """
    with server.hold_port(settings.host, settings.port) as port:
        url = server.shown_url(settings, port)
        nodes = Nodes(count, _environment(flags, port.getsockname()[1]), lambda: when_ready(url))
        with contextlib.closing(nodes):
            return supervisor.Supervisor(nodes.spawn, count, kind="node", on_look=nodes.look).run()


def close_pipes(node: subprocess.Popen[bytes]) -> None:
    """Nothing more is said or heard."""
    for pipe in (node.stdin, node.stdout):
        if pipe is not None:
            pipe.close()


def _environment(flags: Mapping[str, Any], port: int) -> dict[str, str]:
    """What the parent was told by flags, as variables: passwords do not belong on a command line."""
    given = {name: value for name, value in {**flags, "port": port}.items() if value is not None}
    told = {f"{config.PREFIX}{name.upper()}": str(value) for name, value in given.items()}
    files = {f"{name}_FILE" for name in told}
    return {**{name: value for name, value in os.environ.items() if name not in files}, **told}
