"""Imports go the way the arrows of ARCHITECTURE.md go (`.importlinter`), and heavy libraries are loaded late."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.rules import tree

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"
SLOW_TO_IMPORT = ["fastapi", "pydantic", "asyncpg", "aiohttp", "rich", "structlog", "uvicorn", "starlette"]
SERVER_ONLY = ["fastapi", "pydantic", "asyncpg", "structlog", "uvicorn", "starlette", "prometheus_client"]


def test_every_contract_is_kept() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "0 broken" in completed.stdout


@pytest.mark.parametrize(
    ("entry", "unwanted"),
    [
        pytest.param("horarium.cli.main", SLOW_TO_IMPORT, id="the command line starts light"),
        pytest.param("horarium", [*SERVER_ONLY, "aiohttp", "msgspec", "click"], id="import horarium costs nothing"),
        pytest.param("horarium.sdk.client", [*SERVER_ONLY, "click", "rich"], id="the SDK carries no server"),
        pytest.param("horarium.sdk.worker", [*SERVER_ONLY, "click", "rich"], id="a worker carries no server"),
    ],
)
def test_an_entry_leaves_out_what_it_does_not_need(entry: str, unwanted: list[str]) -> None:
    program = f"import {entry}, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=tree.ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert entry in loaded
    assert sorted(set(unwanted) & set(loaded)) == []
