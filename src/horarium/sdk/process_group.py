"""Stopping a process with everything it started: SIGTERM to its group, and SIGKILL when that does not help."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

KILL_AFTER_S = 5.0


class ProcessGroup:
    """The group of a process that was started with `start_new_session`, so that it leads one."""

    def __init__(self, process: asyncio.subprocess.Process, kill_after_s: float = KILL_AFTER_S) -> None:
        self._process = process
        self._kill_after_s = kill_after_s
        self._killing: asyncio.TimerHandle | None = None

    @property
    def was_interrupted(self) -> bool:
        """True once `interrupt` was called."""
        return self._killing is not None

    def interrupt(self) -> None:
        """Ask the group to stop, and kill it soon."""
        if self._killing is None:
            self._send(signal.SIGTERM)
            self._killing = asyncio.get_running_loop().call_later(self._kill_after_s, self.kill)

    def kill(self) -> None:
        """Kill the group, unless its leader has ended."""
        if self._killing is not None:
            self._killing.cancel()
        self._send(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait until the leader has ended; returns its exit status. If it was interrupted, no member outlives it."""
        status = await self._process.wait()
        if self._killing is not None:
            self._killing.cancel()
            self._send(signal.SIGKILL, even_without_leader=True)
        return status

    def _send(self, number: signal.Signals, *, even_without_leader: bool = False) -> None:
        if self._process.returncode is not None and not even_without_leader:
            return  # its number may belong to another process by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def describe(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
