from __future__ import annotations

from pathlib import Path

from horarium.cli import local_zone


def test_the_zone_of_this_machine(tmp_path: Path) -> None:
    assert local_zone.name(tmp_path) is None
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Kolkata")
    assert local_zone.name(tmp_path) == "Asia/Kolkata"
    (tmp_path / "timezone").write_text("Europe/Riga\n", encoding="ascii")
    assert local_zone.name(tmp_path) == "Europe/Riga"
