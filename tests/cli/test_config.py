from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from horarium.cli import config, settings

Cli = Callable[..., Result]


def test_settings_and_where_they_come_from(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("horarium.toml").write_text('lease = "20s"', encoding="utf-8")
    monkeypatch.setenv("HORARIUM_PORT", "9000")
    monkeypatch.setenv("HORARIUM_CLUSTER_SECRET", "hunter2 and its friends")
    url = "postgresql://me:hunter2@db/x?password=hunter2&sslmode=require"
    result = cli("config", "show", "--origin", "--database-url", url)
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()}
    assert rows["lease"] == ["20s", "horarium.toml"]
    assert rows["port"] == ["9000", "HORARIUM_PORT"]
    assert rows["pool_size"] == ["10", "default"]
    assert rows["database_url"] == ["postgresql://me:***@db/x?password=***&sslmode=require", "flag"]
    assert rows["cluster_secret"] == ["***", "HORARIUM_CLUSTER_SECRET"]
    assert "hunter2" not in result.output
    assert "ORIGIN" not in cli("config", "show", "--database-url", url).stdout
    assert cli("config", "show").exit_code == 2


def test_a_variable_that_is_no_setting_is_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORARIUM_HOOK_SECRET", "x")
    assert settings.load(database_url="postgresql://x/y", port=None).settings.port == 8080
    assert "HORARIUM_HOOK_SECRET is not a setting" in capsys.readouterr().err


def test_passwords_are_masked_wherever_they_stand() -> None:
    assert config.masked("postgresql://u:p@h/d") == "postgresql://u:***@h/d"
    assert config.masked("postgresql://u:a@b:c@h/d") == "postgresql://u:***@h/d"
    assert config.masked("postgresql:///d?host=/s&PASSWORD=p&x=1") == "postgresql:///d?host=/s&PASSWORD=***&x=1"
    assert config.masked("postgresql://h/d") == "postgresql://h/d"
