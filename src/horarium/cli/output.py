"""What commands print: tables for people, JSON and YAML for programs, names for shells.

Everything that came over the network is printed without control characters, so that a job's name or a log line cannot
steer the terminal. Colours only on a terminal, and none with NO_COLOR.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from horarium.cli import options

Item = Mapping[str, Any]
Thing = TypeVar("Thing")

MANY = 50  # so many requests take a second

_STYLES = {
    "active": "green",
    "succeeded": "green",
    "ok": "green",
    "running": "cyan",
    "paused": "yellow",
    "failed": "yellow",
    "warn": "yellow",
    "dead": "red",
    "error": "red",
    "fail": "red",
    "cancelled": "dim",
    "skipped": "dim",
    "finished": "dim",
}
# C0 and C1 controls, lone surrogates, and the marks that turn the direction of what follows.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
# Wider than any line: what goes to a file or a pipe is never wrapped or cut.
_PIPE_WIDTH = 100_000


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its heading, and the text of an item in it."""

    heading: str
    text: Callable[[Item], object]


def show_list(invocation: options.Invocation, items: Sequence[Item], columns: Sequence[Column], name: str) -> None:
    """Print many things in the format asked for. `name` is the member that names one, for `-o name` and `-q`."""
    if invocation.quiet or invocation.output == "name":
        _echo_lines(_name(item, name) for item in items)
    elif invocation.output == "jsonl":
        for item in items:
            click.echo(_json(item))
    elif invocation.output == "table":
        table([column.heading for column in columns], [[column.text(item) for column in columns] for item in items])
    else:
        show_value(invocation, list(items))


def show_one(
    invocation: options.Invocation,
    item: Item,
    lines: Sequence[tuple[str, object]],
    name: str,
    *,
    raw: bytes | None = None,
) -> None:
    """Print one thing: for people as lines of `label  text`, without the lines that have nothing to say.

    `raw` is its JSON as it was sent: printed as JSON, its numbers keep every digit.
    """
    if invocation.quiet or invocation.output == "name":
        click.echo(clean(_name(item, name)))
    elif raw is not None and invocation.output in {"json", "jsonl"}:
        _show_raw(raw, 2 if invocation.output == "json" else -1)
    elif invocation.output == "jsonl":
        click.echo(_json(item))
    elif invocation.output == "table":
        facts([(label, value) for label, value in lines if value not in (None, "", [], {})])
    else:
        show_value(invocation, item)


def show_value(invocation: options.Invocation, value: object) -> None:
    """Print a value as it is: YAML if asked for, else indented JSON."""
    if invocation.output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120), nl=False)
    else:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table; words of state are coloured."""
    from rich import table, text

    drawn = table.Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        drawn.add_column(heading, overflow="fold")
    for row in rows:
        drawn.add_row(*(text.Text(clean(str(cell)), style=_STYLES.get(str(cell), "")) for cell in row))
    _print(drawn)


def facts(lines: Sequence[tuple[str, object]]) -> None:
    """Print `label  text` lines, the texts below each other."""
    from rich import table, text

    drawn = table.Table(box=None, pad_edge=False, show_header=False)
    drawn.add_column(style="bold", no_wrap=True)
    drawn.add_column(overflow="fold")
    for label, value in lines:
        drawn.add_row(label, text.Text(clean(str(value), keep="\n"), style=_STYLES.get(str(value), "")))
    _print(drawn)


def say(invocation: options.Invocation, message: str) -> None:
    """A remark for people, on stderr, so that what programs read stays clean; silent with `-q`."""
    if not invocation.quiet:
        click.echo(clean(message, keep="\n"), err=True)


def tracked(items: Sequence[Thing], label: str) -> Iterator[Thing]:
    """The items one by one, with a bar on a terminal's stderr when there are many."""
    if len(items) < MANY or not sys.stderr.isatty():
        yield from items
        return
    from rich import console, progress

    yield from progress.track(items, label, console=console.Console(stderr=True), transient=True)


def clean(text: str, keep: str = "") -> str:
    """The text without control characters (escape sequences among them); line ends and tabs become spaces."""
    return _STEERING.sub(lambda found: _harmless(found[0], keep), text)


def _harmless(character: str, keep: str) -> str:
    if character in keep:
        return character
    return " " if character in "\r\n\t" else "\N{REPLACEMENT CHARACTER}"


def _show_raw(raw: bytes, indent: int) -> None:
    import msgspec

    click.echo(msgspec.json.format(raw, indent=indent))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(item: Item, member: str) -> str:
    found = item.get(member)
    return str(item.get("id") or "" if found in (None, "") else found)


def _echo_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(clean(line))


def _print(drawn: Any) -> None:
    from rich import console

    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    console.Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False).print(drawn)
