"""Small rules of the house that no linter knows. Each exception stands here with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import tree

# Who may read a machine's wall clock, and why. What is due is decided by the database's clock alone.
WALL_CLOCK = {
    "src/horarium/clock.py": "the one place where clocks are kept",
    "src/horarium/cli/": "a person's «now» is that of the machine they type on",
    "src/horarium/targets/http.py": "a signature carries the wall clock, as its standard says; so does Retry-After",
    "src/horarium/services/metrics.py": "the start time of a process, as Prometheus wants it",
}
# Who may print, and why; everybody else logs or returns.
PRINTS = {
    "src/horarium/cli/": "it speaks to a person",
    "src/horarium/sdk/main.py": "the program of a worker says why it does not start",
}

READS_WALL_CLOCK = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "datetime.datetime.now",
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
}

# Longer than a file should be (400 lines), and why that reads better.
LONG_FILES = {
    "src/horarium/api/schemas.py": "a list of shapes: the OpenAPI document reads in this order",
}

# Exceptions of a linter whose reason stands here.
EXCEPTIONS = {
    "src/horarium/api/openapi.py": "a generic shape is filled with a class that is known at run time only",
}

UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"]) + r")\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|Users|home/(?!horarium\b)[a-z]\w*)/[\w.]")
ISSUE_NUMBER = re.compile(r"\b(issue|PR|pull request|fix(es)?|close[sd]?|see) #\d+|\bGH-\d+", re.IGNORECASE)
PACKAGE_INDEX = re.compile(r"--(extra-)?index-url|--find-links|/simple/?\b(?=[\"'\s])|resolved\"?\s*[:=]\s*\"http")
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"}
DRAWERS = {"utils", "util", "common", "helpers", "helper", "lib", "misc", "tools"}
BINARY = {".png", ".ico", ".woff2", ".gz"}
RULES = Path(__file__).parent


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Every call of a file, with the dotted name of what is called."""
    for node in tree.nodes(path):
        if isinstance(node, ast.Call):
            yield tree.dotted(node.func), node


def texts() -> Iterator[tuple[Path, str]]:
    """Every tracked text, but not the rules themselves and not lists of hashes."""
    for path in tree.tracked_files():
        if path.suffix not in BINARY and RULES not in path.parents and path.parent.name != "requirements":
            yield path, path.read_text("utf-8")


def lines_with(pattern: re.Pattern[str], *, suffixes: set[str] | None = None) -> list[str]:
    """Where a pattern stands in the tracked files, as file:line: text."""
    return [
        f"{tree.shown(path)}:{number}: {line.strip()[:120]}"
        for path, text in texts()
        if suffixes is None or path.suffix in suffixes
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_unfinished() -> None:
    assert lines_with(UNFINISHED, suffixes={".py", ".sql", ".toml", ".sh", ".yaml", ".yml", ""}) == []


def test_only_programs_print() -> None:
    printing = {tree.shown(path) for path in tree.source_files() for name, _ in calls(path) if name == "print"}
    assert {path for path in printing if not path.startswith(tuple(PRINTS))} == set()


def test_the_wall_clock_is_read_in_known_places() -> None:
    readers = {tree.shown(path) for path in tree.source_files() for name, _ in calls(path) if name in READS_WALL_CLOCK}
    assert {reader for reader in readers if not reader.startswith(tuple(WALL_CLOCK))} == set()
    assert {place for place in WALL_CLOCK if not any(reader.startswith(place) for reader in readers)} == set()


def test_tests_wait_for_events_not_for_time() -> None:
    """A sleep in a test guesses how long something takes. Allowed: 0 lets others run, 3600 waits to be killed.

    `tests/chaos` is a program in which faults last for a time, and nothing is expected after one. In `tests/simulation` time is
    a number: a sleep takes none, and says how long something takes there.
    """
    sleeping = [
        f"{tree.shown(path)}:{call.lineno}"
        for path in tree.test_files()
        if not {"chaos", "simulation"} & set(path.parts)
        for name, call in calls(path)
        if name.rpartition(".")[2] == "sleep"
        and [ast.unparse(argument) for argument in call.args] not in (["0"], ["3600"])
    ]
    assert sleeping == []


def test_no_path_of_somebodys_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_number_of_an_issue_that_the_reader_cannot_open() -> None:
    assert lines_with(ISSUE_NUMBER, suffixes={".py", ".sql", ".md", ".toml", ".yaml"}) == []


def test_no_lock_file_and_no_address_of_an_index() -> None:
    assert [tree.shown(path) for path in tree.tracked_files() if path.name in LOCK_FILES] == []
    requirements = [path for path in tree.tracked_files() if path.parent.name == "requirements"]
    assert requirements
    assert [tree.shown(path) for path in requirements if PACKAGE_INDEX.search(path.read_text("utf-8"))] == []


def test_every_dependency_is_locked_with_hashes() -> None:
    for path in (tree.ROOT / "requirements").glob("*.txt"):
        pinned = re.findall(r"^([\w.-]+)==\S+(.*)$", path.read_text("utf-8"), re.MULTILINE)
        assert pinned, path
        assert [name for name, rest in pinned if not rest.rstrip().endswith("\\")] == []


def test_no_drawer_for_odds_and_ends() -> None:
    assert [tree.shown(path) for path in tree.source_files() if path.stem in DRAWERS] == []


def test_files_are_short() -> None:
    long = {tree.shown(path) for path in tree.source_files() if len(path.read_text("utf-8").splitlines()) > 400}
    assert long == set(LONG_FILES)


def test_every_module_says_what_it_is() -> None:
    silent = [
        tree.shown(path)
        for path in tree.source_files()
        if path.read_text("utf-8").strip() and not ast.get_docstring(tree.syntax(path))
    ]
    assert silent == []


@pytest.mark.parametrize("kind", ["noqa", "type: ignore"])
def test_an_exception_of_a_linter_has_its_reason_in_the_sources(kind: str) -> None:
    """`# noqa: S603 - why` and `# type: ignore[arg-type]  # why`."""
    form = {
        "noqa": r"# noqa: [A-Z]+\d+(, [A-Z]+\d+)* +- \S",
        "type: ignore": r"# type: ignore\[[a-z-]+(, ?[a-z-]+)*\]  # \S",
    }
    bare = [
        f"{tree.shown(path)}:{number}"
        for path in tree.source_files()
        if tree.shown(path) not in EXCEPTIONS
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if f"# {kind}" in line and not re.search(form[kind], line)
    ]
    assert bare == []


def test_every_text_ends_with_one_newline() -> None:
    odd = [
        tree.shown(path)
        for path, text in texts()
        if text
        and path.suffix in {".md", ".py", ".sql", ".toml"}
        and (not text.endswith("\n") or text.endswith("\n\n"))
    ]
    assert odd == []
