"""Starts PostgreSQL's programs: without a shell, under the right account, tied to the life of the launcher.

**Directories that the account cannot reach.** A data directory below /root is closed to `postgres` or `nobody`, and
parents are not ours to open. A program is therefore started *inside* its data directory (root may enter it) and told
`-D /proc/self/cwd`: the kernel follows that link to the directory itself and asks for no permission on the way
(proc_pid_cwd(5)). Every process of PostgreSQL stays in its data directory, so the name holds for all of them.

**Death of the launcher.** Linux sends the chosen signal when the *thread* that started the program ends (prctl(2),
PR_SET_PDEATHSIG), not only when the process does. `Supervised` therefore has a thread that starts the program and then
waits for it; a thread of a pool, as `asyncio.to_thread` uses, might end earlier.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from horarium import errors
from horarium.embedded import accounts

_TRAMPOLINE = Path(__file__).with_name("trampoline.py")
_HERE = "/proc/self/cwd"
# LD_LIBRARY_PATH: some systems have zlib only there. Nothing else is passed on: PGOPTIONS and its like would change
# what is started.
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where and as whom a program runs. `account` None: as the launcher itself."""

    directory: Path
    account: accounts.Account | None

    @property
    def name(self) -> str:
        """What to call the directory in `-D`."""
        return _HERE if self.account is not None and Path(_HERE).exists() else str(self.directory)

    def command(self, argv: list[str], death_signal: signal.Signals) -> list[str]:
        """Return the command that runs `argv` here, through the trampoline."""
        uid, gid = (self.account.uid, self.account.gid) if self.account else (-1, -1)
        words = [os.getpid(), int(death_signal), uid, gid]
        return [sys.executable, "-I", "-S", str(_TRAMPOLINE), *map(str, words), *argv]


def run(argv: list[str], workplace: Workplace, stdin: IO[bytes] | None = None) -> None:
    """Run a program to its end, with `stdin` from its present position; fail with its last words if it fails."""
    completed = subprocess.run(  # noqa: S603 - a fixed program of our own installation
        workplace.command(argv, signal.SIGTERM),
        cwd=workplace.directory,
        env=_environment(),
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        check=False,
    )
    if completed.returncode != 0:
        words = "\n  ".join(completed.stdout.decode(errors="replace").strip().splitlines()[-8:])
        raise errors.EmbeddedPostgresError(f"{Path(argv[0]).name} failed:\n  {words}")


class Supervised:
    """A program that runs until it ends or is told to, with a thread that starts it and waits for it."""

    def __init__(self, argv: list[str], workplace: Workplace, log_file: Path) -> None:
        self.ended = threading.Event()
        self._command = workplace.command(argv, signal.SIGINT)  # SIGINT: PostgreSQL's fast shutdown
        self._directory = workplace.directory
        self._log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        self._begun = threading.Event()
        threading.Thread(target=self._live, name="embedded-postgresql", daemon=True).start()
        self._begun.wait()
        if self._error is not None:
            raise errors.EmbeddedPostgresError(f"PostgreSQL cannot be started: {self._error}") from self._error

    @property
    def pid(self) -> int:
        """The process id; the trampoline's and then the program's, which is the same."""
        return self._started().pid

    @property
    def exit_status(self) -> int | None:
        """The exit status, minus the signal that ended it, or None while it runs."""
        return self._started().returncode

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if not self.ended.is_set():
            self._started().send_signal(number)

    def _started(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the constructor waits for it"  # noqa: S101 - tells the type checker
        return self._process

    def _live(self) -> None:
        try:
            self._process = self._start()
        except OSError as error:
            self._error = error
            self.ended.set()
            return
        finally:
            self._begun.set()
        self._process.wait()
        self.ended.set()

    def _start(self) -> subprocess.Popen[bytes]:
        descriptor = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            return subprocess.Popen(  # noqa: S603 - a fixed program of our own installation
                self._command,
                cwd=self._directory,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the launcher, which stops the server in order
            )


def _environment() -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, **passed_on, "LC_ALL": "C", "TZ": "UTC"}
