"""What `horarium db status` shows of each database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from horarium import errors

if TYPE_CHECKING:
    from horarium.domain.placement import State
    from horarium.store import migrator
    from horarium.store.databases import Databases

HEADINGS = ["DATABASE", "ADDRESS", "SCHEMA", "SHARDS", "ON THE MOVE"]
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Look:
    """One database: its schema, None when it cannot be asked; and the states of the shards that it has rows of."""

    name: str
    address: str
    status: migrator.Status | None = None
    shards: dict[int, State] = field(default_factory=dict)


async def look(databases: Databases) -> list[Look]:
    """Look at each database. UnavailableError when an only one cannot be asked."""
    from horarium.store import migrator, shards

    looks = []
    for name, database in zip(databases.names, databases.all, strict=True):
        address = place_of(database.url)
        try:
            async with database.connection() as connection:
                status = await migrator.status(connection)
                looks.append(Look(name, address, status, await shards.states(connection) if status.applied else {}))
        except errors.UnavailableError:
            if not databases.are_several:
                raise
            looks.append(Look(name, address))
    return looks


def row(seen: Look) -> tuple[str, ...]:
    """A line of the table."""
    if seen.status is None:
        return seen.name, seen.address, "cannot be asked", "?", ""
    schema = "empty" if not seen.status.applied else "pending" if seen.status.pending else "up to date"
    here = [shard for shard, state in seen.shards.items() if state == "here"]
    moving = [f"{shard} {state}" for shard, state in seen.shards.items() if state not in ("here", "gone")]
    listed = " ".join(map(str, here[:_SHOWN])) + (" …" if len(here) > _SHOWN else "")
    return seen.name, seen.address, schema, f"{len(here)}: {listed}" if here else "0", ", ".join(moving)


def applied(step: migrator.Migration, looks: Sequence[Look]) -> str:
    """Where a migration is applied."""
    missing = [each.name for each in looks if each.status is not None and step.version not in each.status.applied]
    if not missing:
        return "applied"
    return "pending" if len(looks) == 1 else f"pending in {', '.join(missing)}"


def place_of(url: str) -> str:
    """An address without user, password and options."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] + parts.path
