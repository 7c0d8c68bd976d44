"""When handlers began, noted by a worker process of any peer: pairs of doubles (job number, Unix time) in a file of its own.

A note costs the handler an append to a list in memory; a thread writes the list to the file every ten milliseconds. It needs
nothing but Python, since it runs in the environment of each peer. `notes.mjs` is the same for Node.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections import deque
from pathlib import Path

EVERY_S = 0.01


class Notes:
    """The notes of this process, and of each process that it forks: they begin with the first note."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, float]] = deque()
        self._writer_pid = 0

    def add(self, number: int) -> None:
        """The handler of the job with this number begins."""
        self._noted.append((number, time.time()))
        if self._writer_pid != os.getpid():
            self._start_writer()

    def _start_writer(self) -> None:
        self._writer_pid = os.getpid()
        path = Path(os.environ["PEER_FOLDER"]) / f"notes-{self._writer_pid}"
        threading.Thread(target=self._write_on, args=(path,), daemon=True).start()

    def _write_on(self, path: Path) -> None:
        with path.open("ab", buffering=0) as file:
            while True:
                time.sleep(EVERY_S)
                if self._noted:
                    file.write(self._taken())

    def _taken(self) -> bytes:
        taken = array("d")
        for _ in range(len(self._noted)):
            taken.extend(self._noted.popleft())
        return taken.tobytes()
