"""An embedded PostgreSQL: one data directory, one server process, from `start` to `stop`.

The server lives as long as its launcher: `stop` ends it in order, and should the launcher be killed, Linux tells the
server to stop (see `processes`). What is left nevertheless is ended by the next `start` (see `leftovers`).
"""

from __future__ import annotations

import signal
import urllib.parse
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from horarium import errors
from horarium.embedded import (
    accounts,
    binaries,
    directory,
    initdb,
    leftovers,
    lock,
    ports,
    postmaster_file,
    processes,
    progress,
    settings,
)

_POLL_S = 0.005
_PORT_ATTEMPTS = 5
_SOCKET_PATH_LIMIT_BYTES = 103  # sun_path of the strictest platform (macOS), without its final zero


class EmbeddedCluster:
    """A PostgreSQL cluster in `data_dir`, with the superuser and the database `horarium`.

    `port` None chooses a free one, which this object then keeps over restarts. `settings` are server settings
    (`{"shared_buffers": "1GB"}`) that win over the tuned ones. `durable=False` is for tests: survives `kill -9` of
    PostgreSQL, not the end of the machine. `run_as` names the account for new data when the launcher is root (by
    default `postgres`, or else `nobody`). `listener` is told every few seconds what a long wait is for.

    All methods block: call them through `asyncio.to_thread` from a coroutine, and one at a time.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        durable: bool = True,
        run_as: str | None = None,
        listener: progress.Listener = progress.ignore,
    ) -> None:
        self._directory = directory.DataDirectory(data_dir)
        self._lock = lock.DirectoryLock(self._directory.lock_file)
        self._port = port
        self._settings = dict(settings)
        self._durable = durable
        self._run_as = run_as
        self._listener = listener
        self._process: processes.Supervised | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether the server process lives."""
        return self._process is not None and not self._process.ended.is_set()

    @property
    def pid(self) -> int | None:
        """The process id of the running server (PostgreSQL's postmaster), or None."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def log_file(self) -> Path:
        """The file that PostgreSQL's messages go to."""
        return self._directory.log_file

    @property
    def dsn(self) -> str:
        """The address over TCP on the loopback interface, password included, for any client of this machine."""
        return f"postgresql://{self._role()}@{ports.HOST}:{self._known_port()}/{directory.DATABASE}"

    @property
    def socket_dsn(self) -> str | None:
        """The address over the Unix socket: a fifth less time per round trip.

        For clients that may enter the data directory (the launcher's account, root). None where the path is too long.
        """
        path = self._directory.pgdata / f".s.PGSQL.{self._known_port()}"
        if len(str(path).encode()) > _SOCKET_PATH_LIMIT_BYTES:
            return None
        place = urllib.parse.urlencode({"host": str(self._directory.pgdata), "port": self._known_port()})
        return f"postgresql://{self._role()}@/{directory.DATABASE}?{place}"

    def start(self) -> str:
        """Start the server, creating the cluster first where there is none; return its `dsn`.

        Waits for readiness as long as the server process lives: recovery after a crash takes the time it takes.
        Raises `EmbeddedPostgresError` with the server's last words, or with what is wrong with the directory.
        """
        if self.is_running:
            return self.dsn
        self._directory.prepare()
        self._lock.acquire()
        try:
            self._start_locked()
        except BaseException:
            self.stop()
            raise
        return self.dsn

    def wait(self, limit: timedelta | None = None) -> bool:
        """Wait until the server process has ended, by itself or killed; return whether it has within the limit."""
        return self._process is None or self._process.ended.wait(limit.total_seconds() if limit is not None else None)

    def stop(self) -> None:
        """Stop the server: connections are cut, a checkpoint is written. Waits for its end; harmless when stopped."""
        if self._process is not None:
            self._process.send(signal.SIGINT)
            reporter = progress.Reporter(self._listener)
            while not self._process.ended.wait(1):
                reporter.tick(lambda: self._describe("PostgreSQL is stopping"))
            self._process = None
        self._lock.release()

    def _start_locked(self) -> None:
        account = accounts.for_cluster(self._directory.pgdata, self._run_as)
        programs = binaries.find(account)
        self._directory.check_version(programs.major)
        leftovers.stop(self._directory.pgdata, self._listener)
        self._prepare_data(initdb.Initializer(self._directory, programs, account))
        workplace = processes.Workplace(self._directory.pgdata, account)
        if self._port is not None:
            self._check_port(self._port)
            self._serve(programs, workplace, self._port)
        else:
            self._port = self._serve_on_free_port(programs, workplace)

    def _prepare_data(self, initializer: initdb.Initializer) -> None:
        if self._directory.version() is None:
            self._listener(f"creating a PostgreSQL cluster in {self._directory.root}")
            initializer.create(durable=self._durable)
        elif self._directory.password() is None:
            initializer.renew_password()

    def _check_port(self, port: int) -> None:
        if not ports.is_free(port):
            raise errors.EmbeddedPostgresError(
                f"port {port} of {ports.HOST} is in use or not permitted: choose another one, "
                "or leave it out to have a free one chosen"
            )

    def _serve_on_free_port(self, programs: binaries.Binaries, workplace: processes.Workplace) -> int:
        """Serve on a free port, trying another when somebody takes it between the look and the server's start."""
        for _ in range(_PORT_ATTEMPTS - 1):
            port = ports.free_port()
            try:
                self._serve(programs, workplace, port)
            except errors.EmbeddedPostgresError:
                if ports.is_free(port):
                    raise
            else:
                return port
        port = ports.free_port()
        self._serve(programs, workplace, port)
        return port

    def _serve(self, programs: binaries.Binaries, workplace: processes.Workplace, port: int) -> None:
        effective = settings.effective(self._settings, port=port, durable=self._durable)
        command = [programs.program("postgres"), "-D", workplace.name, *settings.arguments(effective)]
        logged = self._directory.rotate_log()
        self._process = processes.Supervised(command, workplace, self._directory.log_file)
        self._await_ready(self._process, logged)

    def _await_ready(self, process: processes.Supervised, logged: int) -> None:
        reporter = progress.Reporter(self._listener)
        while not process.ended.wait(_POLL_S):
            noted = postmaster_file.read(self._directory.pgdata)
            if noted is not None and noted.pid == process.pid and noted.status == "ready":
                return
            reporter.tick(lambda: self._describe("PostgreSQL is starting"))
        self._process = None
        words = "\n  ".join(self._directory.log_tail(logged))
        raise errors.EmbeddedPostgresError(
            f"PostgreSQL ended while it was starting (exit status {process.exit_status}). "
            f"The last lines of {self._directory.log_file}:\n  {words}"
        )

    def _describe(self, doing: str) -> str:
        last = self._directory.log_tail(0, lines=1)
        return f"{doing}: {last[0]}" if last else doing

    def _role(self) -> str:
        return f"{directory.ROLE}:{self._directory.password()}"

    def _known_port(self) -> int:
        if self._port is None:
            raise errors.EmbeddedPostgresError("the embedded PostgreSQL has not been started: it has no address yet")
        return self._port
