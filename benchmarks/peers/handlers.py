"""The handler that Horarium's workers run beside the peers: it notes its start the way theirs do."""

from __future__ import annotations

from benchmarks.peers.programs.notes import Notes
from horarium import Context, Horarium

h = Horarium(app="peers")
notes = Notes()


@h.job("noop")
async def noop(ctx: Context, n: int, b: str) -> None:
    """Nothing but the note."""
    notes.add(n)
