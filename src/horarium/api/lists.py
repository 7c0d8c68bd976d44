"""Lists: keyset pages of at most 500 items, filtered by the query, continued by a signed cursor.

A list's parameters are a model that extends `Query`; one that is misspelt is refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from starlette.responses import Response

from horarium import errors
from horarium.api import answers, services
from horarium.domain import cursor, job, job_fields
from horarium.services.parts import Gathered

MOST = 500
USUAL = 50

Item = TypeVar("Item")


def _storable(value: str) -> str:
    if "\0" in value:
        raise ValueError("U+0000 is in no text that is stored")
    return value


def _instant(value: object) -> datetime:
    faults = job_fields.Faults()
    instant = job_fields.instant(value, "", faults)
    if faults or not isinstance(instant, datetime):
        raise ValueError("write a time with Z or an offset (encode + as %2B), such as 2027-01-31T09:00:00Z")
    return instant


Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]
Instant = Annotated[
    datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"}, mode="validation")
]


# What a path names, where it is not an id.
PathText = Annotated[str, Path(max_length=200), AfterValidator(_storable)]


class Query(BaseModel):
    """What every list takes."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(USUAL, ge=1, le=MOST, description="Most items of one page.")
    cursor: str | None = Field(None, max_length=1024, description="`next_cursor` of the page before.")
    partial: bool = Field(
        False, description="Where a database cannot be asked: show the rest, and name it in `missing`, instead of 503."
    )


class Pager:
    """One list for one actor with its filters: reads the cursor that came, makes the one for the next page."""

    def __init__(self, known: services.Services, who: job.Actor, name: str, query: Query) -> None:
        filters = query.model_dump_json(exclude=set(Query.model_fields), exclude_none=True)
        self._scope = f"{name}|{who.tenant_id}|{filters}"
        self._secret = known.cursor_secret
        self._query = query

    @property
    def fetch(self) -> int:
        """How many items to ask for: one more than are shown tells whether there is a next page."""
        return self._query.limit + 1

    def position(self) -> list[cursor.Key] | None:
        """The key values behind which the page begins; None for the first page."""
        if self._query.cursor is None:
            return None
        return cursor.decode(self._secret, self._scope, self._query.cursor)

    def answer(
        self, found: Sequence[Item], key: Callable[[Item], Sequence[cursor.Key]], of: object | None = None
    ) -> Response:
        """The page; `key` gives the key values of an item. `of` is what was gathered, where `found` was made of it.

        Raises UnavailableError where something is missing and the request did not ask for what there is.
        """
        missing = missing_of(found if of is None else of, self._query)
        shown = found[: self._query.limit]
        # No service gives more than MOST at once: a full answer may have more behind it.
        more = len(found) > len(shown) or len(found) == MOST
        following = cursor.encode(self._secret, self._scope, key(shown[-1])) if more else None
        return answers.page(shown, following, missing)

    def shown(self, found: Sequence[Item]) -> Sequence[Item]:
        """What of an answer stands on the page."""
        return found[: self._query.limit]


def missing_of(gathered: object, query: Query) -> tuple[str, ...]:
    """The databases that a list lacks. Raises UnavailableError where that was not asked for: a list is whole, or says so."""
    missing = gathered.missing if isinstance(gathered, Gathered) else ()
    if missing and not query.partial:
        detail = f"{_named(missing)} cannot be asked, and a list would lack what is there; partial=true shows the rest"
        raise errors.UnavailableError(detail)
    return missing


def _named(databases: Sequence[str]) -> str:
    return f"database {databases[0]}" if len(databases) == 1 else f"databases {', '.join(databases)}"
