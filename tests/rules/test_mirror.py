"""Tests mirror the sources: who looks for the tests of a module finds them where it stands, or here, with the reason.

`src/horarium/domain/lanes.py` is tested by `tests/domain/test_lanes.py`, or by several files `test_lanes_….py`, or by
another file of `tests/domain/` that imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.rules import tree

# Modules whose tests stand elsewhere: where, and why.
ELSEWHERE: dict[str, tuple[str, str]] = {}


@cache
def imported_by(test: Path) -> frozenset[str]:
    """The modules of Horarium that a test imports."""
    return frozenset(_imports(test))


def _imports(test: Path) -> Iterator[str]:
    for node in tree.nodes(test):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folder_of(module: Path) -> Path:
    """Where the tests of a module stand."""
    return tree.TESTS / module.relative_to(tree.SOURCE).parent


def is_mirrored(module: Path) -> bool:
    """Whether a test in the module's folder bears its name or imports it."""
    tests = [path for path in tree.test_files() if path.parent == folder_of(module) and path.name.startswith("test_")]
    named = (f"test_{module.stem}.py", f"test_{module.stem}_")
    return any(test.name.startswith(named) or tree.module_name(module) in imported_by(test) for test in tests)


def test_every_module_has_its_tests() -> None:
    missing = {
        path.relative_to(tree.SOURCE).as_posix()
        for path in tree.source_files()
        if path.stem not in {"__init__", "__main__"} and not is_mirrored(path)
    }
    assert missing - set(ELSEWHERE) == set()
    assert set(ELSEWHERE) - missing == set(), "these have their tests now: take them off the list"


def test_the_tests_elsewhere_are_there() -> None:
    for module, (place, _) in ELSEWHERE.items():
        assert any(tree.ROOT.glob(place)), f"{module}: {place}"
