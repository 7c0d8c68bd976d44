"""How an installation comes into being over its databases, and how another one is added later.

At first the shards are dealt out evenly. The home database is made last: until it is there the installation is not, and
the same call again finishes what was interrupted. A database that is added later holds no shard, until one is moved to it.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from horarium import errors
from horarium.domain import placement
from horarium.store import migrator
from horarium.store.databases import Databases
from horarium.store.migrator import Place


@dataclass(frozen=True, slots=True)
class Made:
    """What is done, or would be, to one database."""

    name: str
    migrations: list[migrator.Migration]
    shards: int


async def statuses(databases: Databases) -> dict[str, migrator.Status]:
    """How far each database is. UnavailableError names the first that cannot be asked."""
    found = {}
    for name, database in zip(databases.names, databases.all, strict=True):
        async with database.connection() as connection:
            found[name] = await migrator.status(connection)
    return found


async def found(databases: Databases, shards: int, *, dry_run: bool = False) -> list[Made]:
    """Make the schema in the databases that are empty.

    Raises ConflictError when none is, and ConfigurationError when the others do not belong together.
    """
    known = await statuses(databases)
    facts = await _facts(databases, known)
    if len(facts) == len(known):
        raise errors.ConflictError("The database has the schema already; `horarium db migrate` brings it up to date.")
    places = _added(databases, facts) if databases.names[0] in facts else _founded(databases, facts, shards)
    made = []
    for name, place in reversed(places.items()):
        if not dry_run:
            await _make(databases, name, place, facts)
        made.append(Made(name, list(known[name].pending), len(place.here)))
    return made[::-1]


async def migrate(databases: Databases, shards: int, *, dry_run: bool = False) -> list[Made]:
    """Bring all databases up to date. An only one is made if it is empty; of several none is: that is `found`'s."""
    known = await statuses(databases)
    empty = [name for name, status in known.items() if not status.applied]
    if empty and databases.are_several:
        raise errors.ConfigurationError(f"databases {', '.join(empty)} are empty: run `horarium db init`")
    made = []
    for name, database in zip(databases.names, databases.all, strict=True):
        if dry_run:
            made.append(Made(name, list(known[name].pending), 0))
            continue
        async with database.connection() as connection:
            made.append(Made(name, await migrator.migrate(connection, shards=shards), 0))
    return made


async def _facts(databases: Databases, known: Mapping[str, migrator.Status]) -> dict[str, dict[str, str]]:
    """The facts of the databases that have any."""
    facts = {}
    for name, database in zip(databases.names, databases.all, strict=True):
        if known[name].applied:
            async with database.connection() as connection:
                facts[name] = await migrator.facts(connection)
    return facts


def _added(databases: Databases, facts: Mapping[str, Mapping[str, str]]) -> dict[str, Place]:
    """Places without shards, for databases that join; their numbers are drawn when they are made."""
    home = facts[databases.names[0]]
    _check_together(databases, facts)
    return {
        name: Place(int(home["shards"]), (), -1, name, home["cluster_id"], home["cursor_secret"])
        for name in databases.names
        if name not in facts
    }


def _founded(databases: Databases, facts: Mapping[str, Mapping[str, str]], shards: int) -> dict[str, Place]:
    """Places of a new installation; those that an interrupted call has made are kept as they are."""
    _check_together(databases, facts)
    begun = next(iter(facts.values()), {"cluster_id": str(uuid.uuid4()), "cursor_secret": secrets.token_hex(32)})
    if int(begun.get("shards", shards)) != shards:
        raise errors.ConfigurationError(f"this installation was begun with {begun['shards']} shards, not {shards}")
    dealt = placement.spread(shards, len(databases.names))
    return {
        name: Place(shards, dealt[number], number, name, begun["cluster_id"], begun["cursor_secret"])
        for number, name in enumerate(databases.names)
        if name not in facts
    }


def _check_together(databases: Databases, facts: Mapping[str, Mapping[str, str]]) -> None:
    """The databases that have facts must be of one cluster, at their places. Their shards are looked at when a node starts."""
    found = {name: placement.Found(each) for name, each in facts.items()}
    wrong = placement.faults(found, (*databases.names, ""))
    if wrong:
        raise errors.ConfigurationError("\n".join(wrong))


async def _make(databases: Databases, name: str, place: Place, facts: Mapping[str, Mapping[str, str]]) -> None:
    if place.number < 0:
        async with databases.home.connection() as connection:
            number = await migrator.next_number(connection, len(facts) - 1)
        place = Place(place.shards, (), number, name, place.cluster_id, place.cursor_secret)
    async with databases.all[databases.names.index(name)].connection() as connection:
        await migrator.migrate(connection, place=place)
        if place.number == 0 and databases.are_several:
            await migrator.next_number(connection, len(databases.names) - 2)
