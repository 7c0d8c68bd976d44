"""Processes under one parent: several of them, or one that is started anew when the code changes.

SIGTERM and SIGINT go on to the children, which wind down; the parent ends when they have. Children are in process groups
of their own, so that Ctrl+C reaches them once, from the parent. Each has a pipe from the parent as its standard input:
when that ends, the parent was killed, and the child winds down by itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from horarium.sdk import backoff

POLL_S = 0.2
STEADY_S = 30.0  # a child that lived so long does not count as failing
REFUSED = 2  # exit status of a worker whose settings are wrong: starting it again would not help

_IGNORED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache"})
_log = logging.getLogger("horarium.worker")

Spawn = Callable[[], "subprocess.Popen[bytes]"]


class _Child:
    """A process, and how many of the signals that came it has been sent."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.told = 0

    def tell(self, numbers: Sequence[int]) -> None:
        for number in numbers[self.told :]:
            self.process.send_signal(number)  # does nothing to one that has ended
        self.told = len(numbers)


class Supervisor:
    """The parent of `count` children, each made by `spawn`. `on_look` is called several times a second while they live.

    The handler of signals only notes them; the loops pass them on, each once to each child, also to one that was just
    being started. (A second signal means "at once" to a worker, so none may be sent twice.)
    """

    def __init__(
        self, spawn: Spawn, count: int = 1, *, kind: str = "worker", on_look: Callable[[], None] = lambda: None
    ) -> None:
        self._spawn = spawn
        self._count = count
        self._kind = kind
        self._on_look = on_look
        self._children: list[_Child] = []
        self._signals: list[int] = []

    def run(self) -> int:
        """Keep the children alive until a signal comes; returns their worst exit status."""
        wait, again_at = backoff.Backoff(base_s=0.5, cap_s=30.0), 0.0
        with self._noting_signals():
            self._children = [_Child(self._spawn()) for _ in range(self._count)]
            while not self._signals:
                time.sleep(POLL_S)
                self._on_look()
                dead = [child for child in self._children if child.process.poll() is not None]
                if any(child.process.returncode == REFUSED for child in dead):
                    self._join([signal.SIGTERM])
                    return REFUSED
                if dead and time.monotonic() >= again_at:
                    _log.error("%d %s processes died and are started again", len(dead), self._kind)
                    self._children = [_Child(self._spawn()) if child in dead else child for child in self._children]
                    again_at = time.monotonic() + wait.next_s()
                elif not dead and time.monotonic() > again_at + STEADY_S:
                    wait.reset()
            return self._join(self._signals)

    def run_reloading(self, changed: Callable[[], bool]) -> int:
        """Keep one child, made anew whenever `changed` says so; one that dies waits for the next change."""
        with self._noting_signals():
            self._children = [_Child(self._spawn())]
            while not self._signals:
                time.sleep(POLL_S)
                if changed():
                    _log.info("the code has changed: starting anew")
                    self._join([signal.SIGTERM])
                    self._children = [_Child(self._spawn())]
            return self._join(self._signals)

    def _join(self, signals: Sequence[int]) -> int:
        """Pass these signals on, and those that come meanwhile, until all children have ended; the worst exit status."""
        while any(child.process.poll() is None for child in self._children):
            for child in self._children:
                child.tell(signals)
            time.sleep(POLL_S / 5)
        asked = {-signal.SIGTERM, -signal.SIGINT}  # met before it could handle them: it ended well
        statuses = [child.process.returncode for child in self._children if child.process.returncode not in asked]
        return max((128 - status if status < 0 else status for status in statuses), default=0)

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        def note(number: int, frame: FrameType | None) -> None:
            self._signals.append(number)

        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
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
