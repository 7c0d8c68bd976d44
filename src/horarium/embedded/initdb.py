"""Creates a cluster: `initdb`, the database `horarium`, and the password of its role."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from horarium import errors
from horarium.embedded import accounts, binaries, directory, processes

_NEW = "pgdata.new-"


class Initializer:
    """Creates the data of `data_directory` with the programs of `programs`, for `account`."""

    def __init__(
        self, data_directory: directory.DataDirectory, programs: binaries.Binaries, account: accounts.Account | None
    ) -> None:
        self._data_directory = data_directory
        self._programs = programs
        self._account = account

    def create(self, *, durable: bool) -> None:
        """Create the cluster beside its place and move it there whole: a broken attempt leaves nothing to start from.

        Syncing once at the end costs a fraction of what `initdb` and the server spend on syncing step by step.
        """
        workplace = self._new_workplace()
        self._initdb(workplace, self._data_directory.write_password())
        self._single_user(workplace, f"CREATE DATABASE {directory.DATABASE}", "-F")  # -F: does not sync
        if durable:
            processes.run([self._programs.program("initdb"), "-D", workplace.name, "--sync-only"], workplace)
        self._move_into_place(workplace.directory)

    def renew_password(self) -> None:
        """Give the role a new password, after the file with the old one was lost."""
        password = self._data_directory.write_password()
        workplace = processes.Workplace(self._data_directory.pgdata, self._account)
        self._single_user(workplace, f"ALTER ROLE {directory.ROLE} PASSWORD '{password}'")

    def _new_workplace(self) -> processes.Workplace:
        for broken in self._data_directory.root.glob(_NEW + "*"):
            shutil.rmtree(broken, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=_NEW, dir=self._data_directory.root))
        if self._account is not None:
            os.chown(place, self._account.uid, self._account.gid)
        return processes.Workplace(place, self._account)

    def _initdb(self, workplace: processes.Workplace, password: str) -> None:
        # The builtin provider sorts and folds the same on every system and for ever; libc's locales do not.
        options = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        command = [self._programs.program("initdb"), "-D", workplace.name, f"--username={directory.ROLE}"]
        access = ["--auth=scram-sha-256", "--pwfile=/dev/stdin"]
        with self._nameless_file(password) as file:
            processes.run([*command, *options, *access, "--no-sync", "--no-instructions"], workplace, file)

    def _single_user(self, workplace: processes.Workplace, sql: str, *options: str) -> None:
        """Run one statement without a server to connect to."""
        command = [self._programs.program("postgres"), "--single", "-D", workplace.name, "-c", "exit_on_error=on"]
        with self._nameless_file(f"{sql}\n") as file:
            processes.run([*command, *options, "postgres"], workplace, file)

    def _nameless_file(self, content: str) -> IO[bytes]:
        """Return a file that only the heirs of its descriptor can read: it has no name, and is the account's own."""
        file = tempfile.TemporaryFile(dir=self._data_directory.root)  # noqa: SIM115 - the caller closes it
        if self._account is not None:
            os.fchown(file.fileno(), self._account.uid, self._account.gid)  # /dev/stdin is opened anew, by permission
        file.write(content.encode())
        file.seek(0)
        return file

    def _move_into_place(self, made: Path) -> None:
        try:
            made.rename(self._data_directory.pgdata)
        except OSError as error:
            raise errors.EmbeddedPostgresError(
                f"{self._data_directory.pgdata} is in the way and holds no PostgreSQL data: move it away"
            ) from error
        self._data_directory.sync()
