"""A minute of faults at random, with a seed: the program of tests/chaos in small. Its long form is `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import __main__ as chaos

SMALL = (
    "--databases 2 --nodes 2 --workers 4 --lease 4 --rate 30 --schedules 60 --minutes 0.4 --every 6 --seed 11 --slack 3"
)
KINDS = "kill_worker kill_node kill_postgresql two_leaders"


@pytest.mark.cluster
def test_half_a_minute_of_faults_breaks_no_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = chaos.main([*SMALL.split(), "--kinds", *KINDS.split(), "--folder", str(tmp_path)])
    told = capsys.readouterr().out
    print(told)
    assert status == 0, told
    assert "every promise was kept (seed 11)" in told
    assert "**broken**" not in told
