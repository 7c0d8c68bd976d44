"""The services that people's requests go to: plain ones over one database, spread ones over several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from horarium.clock import Clock
from horarium.services.canceller import Canceller
from horarium.services.catalog import Catalog
from horarium.services.inspector import Inspector
from horarium.services.manual import Manual
from horarium.services.parts import Part, Parts
from horarium.services.pokes import Pokes
from horarium.services.spread_catalog import SpreadCatalog
from horarium.services.spread_inspector import SpreadInspector
from horarium.services.spread_manual import SpreadManual
from horarium.services.views import LiveView
from horarium.store.databases import Databases


@dataclass(frozen=True, slots=True)
class Spread:
    """The services, and the parts that they consist of, one for each database."""

    parts: Sequence[Part]
    catalog: Catalog | SpreadCatalog
    manual: Manual | SpreadManual
    canceller: Canceller | SpreadManual
    inspector: Inspector | SpreadInspector


def over(
    databases: Databases,
    clocks: Sequence[Clock],
    views: Sequence[LiveView | None],
    pokes: Sequence[Pokes],
    shards: int,
) -> Spread:
    """The services over these databases; `clocks`, `views` and `pokes` are theirs, in the same order."""
    parts = [
        _part(databases, place, clock, view, told, shards)
        for place, (clock, view, told) in enumerate(zip(clocks, views, pokes, strict=True))
    ]
    if not databases.are_several:
        only = parts[0]
        return Spread(parts, only.catalog, only.manual, only.canceller, only.inspector)
    known = Parts(databases, parts, shards)
    catalog = SpreadCatalog(known)
    manual = SpreadManual(known, catalog)
    return Spread(parts, catalog, manual, manual, SpreadInspector(known, catalog))


def _part(databases: Databases, place: int, clock: Clock, view: LiveView | None, pokes: Pokes, shards: int) -> Part:
    database = databases.all[place]
    here = partial(databases.living, place) if databases.are_several else None
    return Part(
        databases.names[place],
        database,
        clock,
        Catalog(database, clock, pokes, shards, here),
        Manual(database, clock, pokes),
        Canceller(database, clock, pokes),
        Inspector(database, view),
    )
