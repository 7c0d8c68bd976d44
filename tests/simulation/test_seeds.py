"""Seeds by what they once found. Each fault was fixed; put back, it is found again (`planted_faults`)."""

from __future__ import annotations

import pytest

from tests.simulation import faults
from tests.simulation.faults import Planted
from tests.simulation.story import play


@pytest.mark.parametrize("found", faults.FOUND, ids=lambda found: found.what)
def test_what_was_found_is_gone(found: Planted) -> None:
    told = play(found.seed, found.focus)
    assert not told.wrong, "\n".join([*told.lines, *told.wrong])
