"""PostgreSQL servers for tests of faults: primaries and standbys of any version, killed, promoted and started again.

`embedded.EmbeddedCluster` is what users get. This one does what they must not: it has no password, knows `kill -9`, standbys,
another version's programs (`HORARIUM_TEST_POSTGRES_BIN`) and a clock that can be set.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from horarium.embedded import accounts, binaries, ports, postmaster_file, processes, settings
from tests import requirements_of_tests

BIN = "HORARIUM_TEST_POSTGRES_BIN"
USER = "horarium"
POLL_S = 0.005
SMALL = {"shared_buffers": "32MB", "max_wal_size": "256MB", "min_wal_size": "32MB", "cluster_name": "tests"}
NOTHING: Mapping[str, str] = MappingProxyType({})
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def account() -> accounts.Account | None:
    """Whom PostgreSQL runs as: nobody else than this process, unless that is root."""
    return accounts.unprivileged() if os.geteuid() == 0 else None


def programs(folder: str | None = None) -> binaries.Binaries:
    """The programs in a folder, or those that the environment names, or the embedded ones."""
    named = folder or os.environ.get(BIN)
    if not named:
        return binaries.find(account())
    requirements_of_tests.require(f"{named}/postgres", (Path(named) / "postgres").exists())
    told = subprocess.run([f"{named}/postgres", "--version"], capture_output=True, text=True, check=True)
    return binaries.Binaries(Path(named).parent, told.stdout.split()[2])


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other accounts may enter: PostgreSQL does not run as root, and pytest's own folders are closed."""
    with tempfile.TemporaryDirectory(prefix="horarium-postgres-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


class Server:
    """One PostgreSQL: data in `folder`/`name`, always at the same port. All methods block.

    `folder` is one that PostgreSQL's account may enter (`open_folder`).
    """

    def __init__(
        self,
        folder: Path,
        name: str = "primary",
        *,
        given: Mapping[str, str] = NOTHING,
        environment: Mapping[str, str] = NOTHING,
        bin_folder: str | None = None,
    ) -> None:
        self.name = name
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.port = ports.free_port()
        self.programs = programs(bin_folder)
        self._given = dict(given)
        self._environment = dict(environment)
        self._place = processes.Workplace(self.data, account())
        self._process: processes.Supervised | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def host(self) -> str:
        return f"{ports.HOST}:{self.port}"

    @property
    def url(self) -> str:
        return url_of([self])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def create(self, wal: Path | None = None) -> Self:
        """Make a new cluster that trusts everybody on the loopback interface, with its log in a folder of its own."""
        self._make_folder(self.data)
        options = [] if wal is None else [f"--waldir={self._make_folder(wal)}"]
        options += ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        processes.run([self._program("initdb"), "-D", str(self.data), f"--username={USER}", *options], self._place)
        self._single_user(f"CREATE DATABASE {USER}")
        return self

    def copy_of(self, primary: Server) -> Self:
        """Become a standby of a running server, known to it by this one's name."""
        self._make_folder(self.data)
        source = f"host={ports.HOST} port={primary.port} user={USER} application_name={self.name}"
        command = [self._program("pg_basebackup"), "-D", str(self.data), "-d", source, "-R", "-X", "stream"]
        processes.run([*command, "--checkpoint=fast", "--no-sync"], self._place)
        return self

    def start(self, **given: str) -> Self:
        """Start it, and wait until it takes connections."""
        self.launch(**given)
        while not self.is_ready():
            assert not self._ended(POLL_S), f"{self.name} ended:\n{self.log.read_text()[-2000:]}"
        return self

    def launch(self, **given: str) -> None:
        """Start it without waiting."""
        self._given.update(given)
        wanted = settings.effective(SMALL | self._given, port=self.port, durable=False)
        wanted["synchronous_commit"] = self._given.get("synchronous_commit", "on")  # what is acknowledged is kept
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        command = [self._program("postgres"), "-D", str(self.data), *settings.arguments(wanted)]
        prefix = ["/usr/bin/env", *variables] if variables else []
        self._process = processes.Supervised([*prefix, *command], self._place, self.log)

    def is_ready(self) -> bool:
        """Whether the server of now takes connections, be it as a standby."""
        if self._ended(0):
            return False
        noted = postmaster_file.read(self.data)
        return noted is not None and noted.pid == self.pid and noted.status in {"ready", "standby"}

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop in order, connections cut; SIGQUIT is `pg_ctl stop -m immediate`."""
        if self._process is not None:
            self._process.send(number)
            self._process.ended.wait()
            self._process = None

    def kill(self) -> None:
        """`kill -9` of the postmaster; wait until all of its processes are gone, as its next start would."""
        if self._process is None:
            return
        children = []
        for pid in children_of(self.pid):
            with contextlib.suppress(ProcessLookupError):  # a backend that ended by itself meanwhile
                children.append(os.pidfd_open(pid))
        self._process.send(signal.SIGKILL)
        self._process.ended.wait()
        self._process = None
        for child in children:
            select.select([child], [], [])  # readable when the process has ended
            os.close(child)

    def revive(self) -> None:
        """What a service manager does: start it again if it has ended by itself."""
        if self._ended(0):
            self.start()

    def promote(self) -> None:
        """Make a standby the primary; returns when it takes writes."""
        processes.run([self._program("pg_ctl"), "promote", "-D", str(self.data), "-w"], self._place)

    def _program(self, name: str) -> str:
        return self.programs.program(name)

    def _make_folder(self, folder: Path) -> Path:
        """An empty folder that belongs to PostgreSQL's account."""
        folder.mkdir(mode=0o700)
        if self._place.account is not None:
            shutil.chown(folder, self._place.account.uid, self._place.account.gid)
        return folder

    def _single_user(self, sql: str) -> None:
        script = self.data / "first.sql"
        script.write_text(f"{sql}\n")
        with script.open("rb") as file:
            processes.run(
                [self._program("postgres"), "--single", "-D", str(self.data), "-F", "postgres"], self._place, file
            )
        script.unlink()

    def _ended(self, seconds: float) -> bool:
        assert self._process is not None
        return self._process.ended.wait(seconds)


def url_of(servers: Sequence[Server]) -> str:
    """The address that names several servers."""
    return f"postgresql://{USER}@{','.join(server.host for server in servers)}/{USER}"


def children_of(pid: int) -> list[int]:
    """The processes that a postmaster started."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.exists() else []


class FakeClock:
    """A clock for servers that is set by hand (libfaketime): `environment` makes a program read it; it goes on ticking."""

    def __init__(self, folder: Path, name: str = "clock") -> None:
        requirements_of_tests.require("libfaketime", FAKETIME.exists())
        self._file = folder / name
        self.environment = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }
        self.set(timedelta(0))

    def set(self, ahead: timedelta) -> None:
        """So far ahead of the machine's clock from now on; negative: behind it."""
        ready = self._file.with_suffix(".new")
        ready.write_text(f"{ahead.total_seconds():+.0f}s\n")
        ready.chmod(0o644)
        ready.replace(self._file)
