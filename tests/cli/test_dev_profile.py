from __future__ import annotations

import stat
from pathlib import Path

import pytest

from horarium.cli import dev_profile


def test_dev_keeps_a_profile_of_its_own_and_leaves_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "conf" / "profile.toml"
    monkeypatch.setenv("HORARIUM_PROFILE", str(file))
    (tmp_path / "api_key").write_text("hrm_x\n", encoding="utf-8")
    for port in (1, 2):
        assert dev_profile.write(f"http://127.0.0.1:{port}", tmp_path) == file
        assert f'url = "http://127.0.0.1:{port}"' in file.read_text(encoding="utf-8")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    mine = 'url = "https://production.example"\napi_key = "k"\n'
    file.write_text(mine, encoding="utf-8")
    assert dev_profile.write("http://127.0.0.1:3", tmp_path) is None
    assert file.read_text(encoding="utf-8") == mine
