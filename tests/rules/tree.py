"""The working tree as the rule tests read it: tracked files, source modules, their syntax trees."""

from __future__ import annotations

import ast
import fnmatch
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "horarium"
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
SQL = SOURCE / "store" / "sql"


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git knows, and every new one that it would not ignore; without git, all but ignored ones."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return tuple(sorted(_unignored(ROOT)))
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return tuple(path for path in (ROOT / name for name in sorted(listed.split("\0")) if name) if path.is_file())


@cache
def source_files() -> tuple[Path, ...]:
    """Every module of the package."""
    return tuple(path for path in sorted(SOURCE.rglob("*.py")) if "__pycache__" not in path.parts)


@cache
def test_files() -> tuple[Path, ...]:
    """Every Python file of the tests."""
    return tuple(path for path in sorted(TESTS.rglob("*.py")) if "__pycache__" not in path.parts)


@cache
def syntax(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text("utf-8"), filename=str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(syntax(path)))


def dotted(node: ast.AST) -> str:
    """The dotted name that an expression is, such as `errors.InvalidError`; empty when it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def shown(path: Path) -> str:
    """A path as a failure names it: from the root of the tree."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is data: literals and fixed parts of f-strings, docstrings left out."""
    documentation = {id(text) for text in _docstrings(path)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def _docstrings(path: Path) -> Iterator[ast.Constant]:
    """Expressions that are nothing but a string: docstrings, of attributes too."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _unignored(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name == ".git" or any(fnmatch.fnmatch(path.name, pattern) for pattern in _ignored_names()):
            continue
        if path.is_dir():
            yield from _unignored(path)
        else:
            yield path


@cache
def _ignored_names() -> tuple[str, ...]:
    return tuple(line.rstrip("/") for line in (ROOT / ".gitignore").read_text("utf-8").splitlines() if line)
