"""Worker processes under one parent: several of them, or one that is started anew when the code changes.

SIGTERM and SIGINT go on to the children, which wind down; the parent ends when they have. Children are in process groups
of their own, so that Ctrl+C reaches them once, from the parent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from horarium.sdk import backoff

POLL_S = 0.25
STEADY_S = 30.0  # a child that lived so long does not count as failing
REFUSED = 2  # exit status of a worker whose settings are wrong: starting it again would not help

_IGNORED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache"})
_log = logging.getLogger("horarium.worker")

Spawn = Callable[[], "subprocess.Popen[bytes]"]


class Supervisor:
    """The parent of `count` children, each made by `spawn`."""

    def __init__(self, spawn: Spawn, count: int = 1) -> None:
        self._spawn = spawn
        self._count = count
        self._children: list[subprocess.Popen[bytes]] = []
        self._signalled = threading.Event()

    def run(self) -> int:
        """Keep the children alive until a signal comes; returns their worst exit status."""
        wait, started_at = backoff.Backoff(base_s=0.5, cap_s=30.0), time.monotonic()
        with self._passing_signals_on():
            self._children = [self._spawn() for _ in range(self._count)]
            while not self._signalled.wait(POLL_S):
                dead = [child for child in self._children if child.poll() is not None]
                if any(child.returncode == REFUSED for child in dead):
                    self._send(signal.SIGTERM)
                    break
                if not dead:
                    continue
                if time.monotonic() - started_at > STEADY_S:
                    wait.reset()
                _log.error("%d worker processes died and are started again", len(dead))
                if self._signalled.wait(wait.next_s()):
                    break
                started_at = time.monotonic()
                self._children = [self._spawn() if child in dead else child for child in self._children]
            return self._join()

    def run_reloading(self, changed: Callable[[], bool]) -> int:
        """Keep one child, made anew whenever `changed` says so; one that dies waits for the next change."""
        with self._passing_signals_on():
            self._children = [self._spawn()]
            while not self._signalled.wait(POLL_S):
                if changed():
                    _log.info("the code has changed: starting anew")
                    self._send(signal.SIGTERM)
                    self._join()
                    self._children = [self._spawn()]
            return self._join()

    def _join(self) -> int:
        statuses = [child.wait() for child in self._children]
        return max((128 - status if status < 0 else status for status in statuses), default=0)

    def _send(self, number: int) -> None:
        for child in self._children:
            child.send_signal(number)  # does nothing to one that has ended

    @contextlib.contextmanager
    def _passing_signals_on(self) -> Iterator[None]:
        def take(number: int, frame: FrameType | None) -> None:
            self._signalled.set()
            self._send(number)

        before = {number: signal.signal(number, take) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Watch:
    """Tells whether Python files under a directory have changed since it was last asked."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen = snapshot(root)

    def has_changed(self) -> bool:
        """True once for each set of changes."""
        now = snapshot(self._root)
        before, self._seen = self._seen, now
        return now != before


def snapshot(root: Path) -> dict[Path, float]:
    """When each Python file under `root` was last written."""
    found: dict[Path, float] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _IGNORED]
        for path in (Path(folder) / name for name in files if name.endswith(".py")):
            with contextlib.suppress(OSError):  # gone since it was listed
                found[path] = path.stat().st_mtime
    return found
