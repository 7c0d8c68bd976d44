"""Two hundred seeds keep every promise. `make simulate SEEDS=10000` plays more of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SEEDS = 200
AT_ONCE = 25


def played(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The simulation in a process of its own, where nothing else is random."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_promise(first: int) -> None:
    told = played("--from", str(first), "--seeds", str(AT_ONCE), "--jobs", "1")
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_seed_plays_the_same_story_each_time() -> None:
    """Alone, and after another one in the same process: else a failure could not be looked at."""
    alone = played("--seed", "2").stdout
    twice = played("--seed", "1", "--seed", "2").stdout
    assert alone.startswith("seed 2: ")
    assert alone in twice
