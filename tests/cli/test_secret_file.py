from __future__ import annotations

import stat
from pathlib import Path

from horarium.cli import secret_file


def test_a_secret_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "key"
    secret_file.write(file, "one")
    secret_file.write(file, "two\n")
    assert secret_file.read(file) == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["key"]
    assert secret_file.read(tmp_path / "none") is None
