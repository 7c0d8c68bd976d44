"""The layout of an embedded cluster's data directory.

    <data-dir>/
    ├── pgdata/        PostgreSQL's own files; they belong to the account that PostgreSQL runs as
    ├── password       of the role `horarium`; mode 600, the launcher's
    ├── lock           held by the launcher while it lives, holds its process id
    ├── postgres.log   what PostgreSQL says; the one before it is postgres.log.1
    └── .gitignore     the directory often stands inside a project: nothing here is for version control

The directory itself may be closed to PostgreSQL's account: see `processes` on how the server works there all the same.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from horarium import errors

ROLE = "horarium"
DATABASE = "horarium"
_LOG_LIMIT_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 16 * 1024


class DataDirectory:
    """Names the files of a data directory, and reads and writes those that are the launcher's."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.pgdata = self.root / "pgdata"
        self.password_file = self.root / "password"
        self.lock_file = self.root / "lock"
        self.log_file = self.root / "postgres.log"

    def prepare(self) -> None:
        """Create the directory where it is missing; fail where that is impossible or it is not one of ours."""
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(f"no permission to write there as uid {os.geteuid()}")
            self._keep_out_of_version_control()
        except OSError as error:
            raise errors.EmbeddedPostgresError(
                f"the data directory {self.root} cannot be used: {error.strerror or error}; "
                "correct that, or choose another one with --data-dir"
            ) from error
        if (self.root / "PG_VERSION").exists():
            raise errors.EmbeddedPostgresError(
                f"{self.root} is the data directory of a PostgreSQL that Horarium did not create: "
                "choose another one with --data-dir, or start that PostgreSQL and name it with --database-url"
            )

    def _keep_out_of_version_control(self) -> None:
        with contextlib.suppress(FileExistsError), (self.root / ".gitignore").open("x", encoding="ascii") as file:
            file.write("*\n")

    def version(self) -> str | None:
        """Return the major version of the data, or None where there are none yet."""
        try:
            return (self.pgdata / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise errors.EmbeddedPostgresError(f"{self.pgdata} cannot be read: {error.strerror}") from error

    def check_version(self, major: str) -> None:
        """Fail unless PostgreSQL `major` can open the data."""
        found = self.version()
        if found in {None, major}:
            return
        raise errors.EmbeddedPostgresError(
            f"the data in {self.root} are of PostgreSQL {found}, and this Horarium brings PostgreSQL {major}, which "
            f"cannot open them: start the Horarium that wrote them, save them with pg_dump and restore them into a new "
            f"data directory; or begin anew with another --data-dir"
        )

    def password(self) -> str | None:
        """Return the password of the role `horarium`, or None where the file is missing."""
        try:
            return self.password_file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None

    def write_password(self) -> str:
        """Choose a password and keep it in the password file."""
        password = secrets.token_hex(32)
        descriptor = os.open(self.password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(password + "\n")
            file.flush()
            os.fsync(file.fileno())
        return password

    def sync(self) -> None:
        """Make the names in the directory durable."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rotate_log(self) -> int:
        """Put a log that has grown large aside; return the size of the present one in bytes."""
        try:
            size = self.log_file.stat().st_size
        except FileNotFoundError:
            return 0
        if size < _LOG_LIMIT_BYTES:
            return size
        self.log_file.replace(self.log_file.with_suffix(".log.1"))
        return 0

    def log_tail(self, since: int, lines: int = 8) -> list[str]:
        """Return the last lines that were logged after the byte `since`."""
        try:
            with self.log_file.open("rb") as file:
                file.seek(max(since, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return text.splitlines()[-lines:]
