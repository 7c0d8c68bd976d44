"""The disk of PostgreSQL is full: everybody is told why, nothing is corrupt, and it goes on when there is room again."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from horarium.store import migrator
from tests import postgres, requirements_of_tests
from tests.cluster import load, processes, waiting

SIZE_MB = 160
CHUNK = bytes(1 << 16)


class Disk:
    """A small file system of its own, with a ballast that can fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Take all the room that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(CHUNK)
            except OSError:
                return

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """A tmpfs in a folder."""
    place = folder / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m,mode=0755", "tmpfs", str(place)]
    is_mounted = os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0
    requirements_of_tests.require("the right to mount a tmpfs", is_mounted, "run as root with CAP_SYS_ADMIN")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.cluster
@pytest.mark.parametrize("full", ["tables", "log"])
async def test_a_full_disk_is_told_and_survived(tmp_path: Path, full: str) -> None:
    """`tables`: statements fail. `log`: PostgreSQL itself stops, and is started again when there is room."""
    async with started(full) as (server, disk):
        here = processes.Installation(tmp_path, server.url, lease="3s")
        try:
            process = await here.start_server()
            async with load.under_load(here, jobs=10) as client:
                disk.fill()
                await is_told(here, "disk is full" if full == "tables" else "cannot be asked")
                disk.free()
                await goes_on(server, client)
                await load.balanced(here, client)
                assert process.is_running
                await is_sound(server)
        finally:
            await here.close()


async def is_told(here: processes.Installation, why: str) -> None:
    """Writers get 503 with the reason, and so does the log."""
    body = {"run_at": "2100-01-01T00:00:00Z", "target": {"handler": "say"}, "payload": {"word": "x" * 200_000}}

    async def refused() -> bool:
        problem = await here.call("POST", "/v1/jobs", body)
        return problem.get("status") == 503 and why in problem["detail"]

    await waiting.until(refused, f"a writer is refused with {why!r}")

    async def logged() -> bool:
        return why in (here.folder / "server.log").read_text()

    await waiting.until(logged, f"the log says {why!r}")


async def goes_on(server: postgres.Server, client: load.Client) -> None:
    """One-offs are acknowledged again. Until then PostgreSQL may end at any moment, even after it has seemed ready: its crash
    may have been under way while there was no room, and its recovery needs room too."""
    before = len(client.acknowledged)

    async def acknowledged() -> bool:
        await asyncio.to_thread(server.revive)
        return len(client.acknowledged) > before

    await waiting.until(acknowledged, "one-offs are acknowledged again")


async def is_sound(server: postgres.Server) -> None:
    """No table or index lost anything: PostgreSQL's own check of its files."""
    connection = await asyncpg.connect(server.url)
    await connection.execute("CREATE EXTENSION amcheck")
    checked = await connection.fetchval(
        "SELECT count(bt_index_check(c.oid, true)) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
        " WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relpersistence = 'p'"
    )
    assert checked > 50
    await connection.close()


@asynccontextmanager
async def started(full: str) -> AsyncIterator[tuple[postgres.Server, Disk]]:
    """A server with its data, or only its write-ahead log, on the small disk."""
    with postgres.open_folder() as folder, small_disk(folder) as disk:
        wal = folder / "wal" if full == "tables" else disk.folder / "wal"
        data = disk.folder if full == "tables" else folder
        with postgres.Server(data, given={"max_wal_size": "48MB", "wal_recycle": "off"}) as server:
            await asyncio.to_thread(server.create, wal)
            await asyncio.to_thread(server.start)
            connection = await asyncpg.connect(server.url)
            await migrator.migrate(connection)
            await connection.close()
            yield server, disk
