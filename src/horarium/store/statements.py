"""Named SQL, loaded from `store/sql/*.sql`.

A file holds statements, each introduced by `-- name: snake_case` and a comment that says what it is for. They are reached as
attributes: `statements.load("runs").claim`. A statement's leading comment stays with it, so `pg_stat_statements` and the
server log show which one ran.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\s*$", re.MULTILINE)


class Statements:
    """The statements of one file, by name."""

    def __init__(self, source: str, texts: dict[str, str]) -> None:
        self._source = source
        self._texts = texts

    def __getattr__(self, name: str) -> str:
        try:
            return self._texts[name]
        except KeyError:
            raise AttributeError(f"{self._source}.sql has no statement named {name}") from None

    def names(self) -> list[str]:
        """The names of all statements of the file, in its order."""
        return list(self._texts)


@cache
def load(source: str) -> Statements:
    """The statements of `store/sql/<source>.sql`."""
    text = resources.files("horarium.store").joinpath("sql", f"{source}.sql").read_text("utf-8")
    return Statements(source, parse(text))


def parse(text: str) -> dict[str, str]:
    """Split a file into its named statements; ValueError when it has none, or two of one name."""
    starts = list(_NAME.finditer(text))
    if not starts:
        raise ValueError("no statement has a name")
    ends = [match.start() for match in starts[1:]] + [len(text)]
    found: dict[str, str] = {}
    for match, end in zip(starts, ends, strict=True):
        if match[1] in found:
            raise ValueError(f"two statements are named {match[1]}")
        found[match[1]] = text[match.start() : end].strip().removesuffix(";")
    return found
