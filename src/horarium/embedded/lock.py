"""One launcher for one data directory: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from horarium import errors


class DirectoryLock:
    """An exclusive `flock(2)` on a file that holds the process id of its holder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def acquire(self) -> None:
        """Take the lock, or fail and name the process that holds it."""
        if self._descriptor is not None:
            return
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise errors.EmbeddedPostgresError(f"{self._path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise errors.EmbeddedPostgresError(
                f"the data directory {self._path.parent} is in use by process {holder or '(just starting)'}: "
                "stop that one first, or choose another --data-dir"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; the file stays, since removing it would let two holders lock two files."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
