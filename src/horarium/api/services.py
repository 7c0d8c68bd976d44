"""What the routes of the public API work with: one value, made by `server`, found by each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from horarium import clock
from horarium.domain import sharding
from horarium.services import (
    canceller,
    catalog,
    inspector,
    keys,
    manual,
    spread_catalog,
    spread_inspector,
    spread_manual,
)
from horarium.store.database import Database
from horarium.store.databases import Databases


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one node; those over several databases where there are several.

    `cursor_secret` signs the cursors of lists (`cluster.cursor_secret`). `render_metrics` makes the Prometheus text; it
    may take long and is called in a thread. `unready` names what keeps this node from serving; nothing named means
    ready. `warnings` names what else is not as it should be."""

    databases: Databases
    clock: clock.Clock
    catalog: catalog.Catalog | spread_catalog.SpreadCatalog
    manual: manual.Manual | spread_manual.SpreadManual
    canceller: canceller.Canceller | spread_manual.SpreadManual
    keys: keys.Keys
    inspector: inspector.Inspector | spread_inspector.SpreadInspector
    cursor_secret: bytes
    render_metrics: Callable[[], bytes]
    unready: Callable[[], Sequence[str]] = tuple
    warnings: Callable[[], Sequence[str]] = tuple
    shards: int = sharding.DEFAULT_SHARDS

    @property
    def database(self) -> Database:
        """The home database."""
        return self.databases.home


def of(request: Request) -> Services:
    """The services of the node that this request came to."""
    return cast("Services", request.app.state.services)
