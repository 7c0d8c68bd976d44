"""What the routes of the public API work with: one value, made by `server`, found by each request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from horarium import clock
from horarium.services import canceller, catalog, inspector, keys, manual
from horarium.store.database import Database


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one node.

    `cursor_secret` signs the cursors of lists (`cluster.cursor_secret`). `render_metrics` makes the Prometheus text; it
    may take long and is called in a thread. `unready` names what keeps this node from serving; nothing named means
    ready."""

    database: Database
    clock: clock.Clock
    catalog: catalog.Catalog
    manual: manual.Manual
    canceller: canceller.Canceller
    keys: keys.Keys
    inspector: inspector.Inspector
    cursor_secret: bytes
    render_metrics: Callable[[], bytes]
    unready: Callable[[], Sequence[str]] = tuple


def of(request: Request) -> Services:
    """The services of the node that this request came to."""
    return cast("Services", request.app.state.services)
