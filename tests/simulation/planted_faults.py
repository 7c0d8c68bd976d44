"""What the simulation finds: each fault that is planted breaks a promise within some seeds.

Too long for every day: `make simulate-faults`, after a change of the simulation.
"""

from __future__ import annotations

import pytest

from tests.simulation import faults
from tests.simulation.faults import Planted
from tests.simulation.story import play

MOST_SEEDS = 300


@pytest.mark.parametrize("planted", [*faults.FOUND, *faults.PLANTED], ids=lambda planted: planted.what)
def test_a_planted_fault_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that is known to find it goes first: it may no longer, since everything that changes changes the stories."""
    planted.plant(monkeypatch)
    seeds = [planted.seed, *range(MOST_SEEDS)]
    found = next((seed for seed in seeds if play(seed, planted.focus).wrong), None)
    assert found is not None, f"{MOST_SEEDS} seeds did not find that {planted.what}"
