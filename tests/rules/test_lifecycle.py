"""The states are told three times, in the domain, in the schema and on paper, and it is the same each time."""

from __future__ import annotations

import itertools
import re
from enum import StrEnum
from typing import get_args

import pytest

from horarium.domain import misfire, overlap, roles, states, timing
from tests.rules import schema_dump, tree

PAGE = tree.DOCS / "job-lifecycle.md"
RUN_ROWS = frozenset({states.WAITING, states.RUNNING})

Moves = set[tuple[str, str]]


def domain_moves(kind: str) -> Moves:
    if kind == "run":
        return {(str(here), str(there)) for here, targets in states.RUN_MOVES.items() for there in targets}
    return {(str(here), str(there)) for here, targets in states.JOB_MOVES.items() for there in targets}


def section(kind: str) -> str:
    """The part of the page about the states of a job or of a run."""
    title = {"run": "## The states of a run", "job": "## The states of a job"}[kind]
    return PAGE.read_text("utf-8").split(title, 1)[1].split("\n## ", 1)[0]


def drawn_moves(kind: str) -> Moves:
    """The arrows of the diagram: each line of the block is a chain such as `queued → running → dead`, and maybe a remark."""
    block = section(kind).split("```text\n", 1)[1].split("```", 1)[0]
    found: Moves = set()
    for line in block.splitlines():
        chain = re.findall(r"(?:^|→)\s*([a-z]+)(?=\s|$)", line)
        assert len(chain) > 1 or not line.strip(), line
        found |= set(itertools.pairwise(chain))
    return found


def table_rows(kind: str) -> list[list[str]]:
    """The rows of the table of moves: from, to, when, by whom."""
    lines = [line for line in section(kind).splitlines() if re.match(r"\| `\w+` \| `", line)]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("kind", ["run", "job"])
def test_the_diagram_is_the_domain(kind: str) -> None:
    assert drawn_moves(kind) == domain_moves(kind)


@pytest.mark.parametrize("kind", ["run", "job"])
def test_the_table_is_the_domain(kind: str) -> None:
    rows = [(row[0].strip("`"), row[1].strip("`")) for row in table_rows(kind)]
    assert set(rows) == domain_moves(kind)
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("kind", ["run", "job"])
def test_every_move_names_the_duty_that_makes_it(kind: str) -> None:
    duties = {path.stem for path in (tree.SOURCE / "services").glob("*.py")}
    for row in table_rows(kind):
        named = re.findall(r"`([a-z_]+)`", row[3])
        assert named, row
        assert set(named) <= duties, row


def test_every_state_has_a_sentence() -> None:
    explained = set(re.findall(r"^\* \*\*([a-z]+)\*\*", PAGE.read_text("utf-8"), re.MULTILINE))
    assert explained == {*map(str, states.RunState), *map(str, states.JobStatus)}


def test_live_and_final_states_are_all_states() -> None:
    assert set(states.RunState) == states.LIVE_STATES | states.FINAL_STATES
    assert not states.LIVE_STATES & states.FINAL_STATES
    assert {state for state, moves in states.RUN_MOVES.items() if not moves} == states.FINAL_STATES
    assert set(states.RUN_MOVES) == set(states.RunState)
    assert set(states.JOB_MOVES) == set(states.JobStatus)


def allowed_words(table: str, column: str) -> set[str]:
    """The words that the schema's CHECK allows in a column."""
    text = schema_dump.COMMITTED.read_text("utf-8").split(f"CREATE TABLE horarium.{table} (", 1)[1].split("\n)", 1)[0]
    checks = re.findall(rf"CHECK \(\({column} = ANY \(ARRAY\[(.*?)\]\)\)\)", text)
    assert len(checks) == 1, f"{table}.{column}"
    return set(re.findall(r"'(\w+)'::text", checks[0]))


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ("jobs", "status", states.JobStatus),
        ("jobs", "misfire", misfire.Misfire),
        ("jobs", "overlap", overlap.Overlap),
        ("jobs", "run_at_fold", frozenset(get_args(timing.Fold))),
        ("runs", "state", RUN_ROWS),
        ("runs", "trigger", states.Trigger),
        ("history", "state", states.FINAL_STATES),
        ("api_keys", "role", roles.Role),
    ],
)
def test_the_schema_allows_the_words_of_the_domain(
    table: str, column: str, words: type[StrEnum] | frozenset[str]
) -> None:
    assert allowed_words(table, column) == {str(word) for word in words}


def test_every_reason_of_a_skip_is_explained() -> None:
    text = PAGE.read_text("utf-8").split("## Ticks that did not become a run", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == allowed_words("skips", "reason")
