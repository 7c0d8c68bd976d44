from __future__ import annotations

import asyncio
from pathlib import Path

from horarium import config
from horarium.cli import first_key, secret_file


def test_a_key_is_made_once_and_again_when_it_was_lost(database_url: str, tmp_path: Path) -> None:
    settings = config.Settings(database_url=database_url, env="dev")
    file = tmp_path / "api_key"

    def keep() -> bool:
        return asyncio.run(first_key.keep(settings, file))

    assert keep() is True
    first = secret_file.read(file)
    assert first is not None
    assert first.startswith("hrm_dev_")
    assert keep() is False
    assert secret_file.read(file) == first

    file.write_text("hrm_dev_nonsense", encoding="utf-8")
    assert keep() is False
    assert secret_file.read(file) not in {None, first, "hrm_dev_nonsense"}


def test_the_first_key_is_the_first_only(database_url: str, tmp_path: Path) -> None:
    settings = config.Settings(database_url=database_url)
    for file in (tmp_path / "one", tmp_path / "two"):
        asyncio.run(first_key.write_if_none(settings, file))
    assert (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()
