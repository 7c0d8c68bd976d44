from __future__ import annotations

import os

import pytest

from horarium.cli import dev_child


def test_the_command_behind_the_parents_id_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        dev_child.run([str(os.getppid()), "version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("horarium ")


def test_not_if_the_parent_is_another_one_by_now() -> None:
    with pytest.raises(SystemExit, match="ended before"):
        dev_child.run([str(os.getpid()), "version"])
