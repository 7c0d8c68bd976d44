"""Looks at every commit: what may never be so, not even for a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.model.server import Change, Server


class Broken(Exception):  # noqa: N818 - a promise that was broken, not an error of the simulation
    """A promise was not kept."""


class Watch:
    """Tokens rise; a run ends once; a tick is made once; a finished run does not come back."""

    def __init__(self, server: Server, tell: Callable[[str, str], None]) -> None:
        self._server = server
        self._tell = tell
        self.made: dict[Any, dict[str, Any]] = {}
        self.broken: list[str] = []
        self._highest: dict[Any, int] = {}
        self._may_come_again: set[Any] = set()
        server.on_commit = self.committed

    def committed(self, changes: list[Change]) -> None:
        """Judge what one transaction wrote."""
        for change in changes:
            if change.table == "past_schedules" and change.after and change.after["schedule_key"] is None:
                # Re-armed after a step of the clock: what was made of that time may be made once more.
                self._may_come_again.add(change.after["job_id"])
        for change in changes:
            if change.table == "runs":
                self._run(change)
            elif change.table == "history" and change.after is not None:
                self._end(change.after)

    def _run(self, change: Change) -> None:
        before, after = change.before, change.after
        if after is None:
            self._tell("rows", f"run {change.key} leaves")
            return
        if before is None:
            self._made(after)
        highest = self._highest.get(change.key, 0)
        token = after["fencing_token"]
        if token < highest:
            self._break(f"the token of {change.key} fell from {highest} to {token}")
        is_claim = after["state"] == "running" and (before is None or before["state"] != "running")
        if is_claim and token <= highest:
            self._break(f"{change.key} was claimed under the token {token}, which was given before")
        if before is not None and before["state"] == "running" == after["state"] and token != highest:
            self._break(f"{change.key} was claimed while it was running")
        self._highest[change.key] = max(highest, token)
        self._tell("rows", f"run {change.key} {after['state']} token {token} attempt {after['attempt']}")

    def _made(self, row: dict[str, Any]) -> None:
        self.made[row["id"]] = row
        if row["id"] not in self._server.ended:
            return
        if row["job_id"] in self._may_come_again:
            del self._highest[row["id"]]
        else:
            self._break(f"{row['id']} was made again after it had ended")

    def _end(self, row: dict[str, Any]) -> None:
        run_id, token = row["id"], row["fencing_token"]
        if len(self._server.ended[run_id]) > 1 and row["job_id"] not in self._may_come_again:
            self._break(f"{run_id} ended twice")
        if token < self._highest.get(run_id, 0):
            self._break(f"{run_id} ended under the stale token {token}")
        self._highest[run_id] = max(self._highest.get(run_id, 0), token)
        self._tell("rows", f"run {run_id} ended: {row['state']} token {token}")

    def _break(self, what: str) -> None:
        self._tell("BROKEN", what)
        self.broken.append(what)
