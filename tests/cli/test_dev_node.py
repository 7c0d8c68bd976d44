from __future__ import annotations

from pathlib import Path

import pytest

from horarium.cli import dev_node, dev_stack


def test_the_workers_know_the_server_and_may_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = dev_stack.Wanted(tmp_path, 0, "app.jobs:h")
    http, samples, own = dev_node._commands(wanted, "http://127.0.0.1:1")
    assert list(http.arguments[:2]) == ["worker", "--http"]
    assert list(samples.arguments[:2]) == ["worker", dev_node.SAMPLES]
    assert list(own.arguments[:3]) == ["worker", "app.jobs:h", "--reload"]
    assert own.log is None, "what an application prints belongs into its author's terminal"
    for command in (http, samples, own):
        assert command.environment["HORARIUM_URL"] == "http://127.0.0.1:1"
        assert command.environment["HORARIUM_API_KEY_FILE"] == str(tmp_path / "api_key")
        assert command.environment["HORARIUM_API_KEY"] == "", "a key of the surroundings is for another server"
    assert "127.0.0.0/8" in http.environment["HORARIUM_ALLOW_PRIVATE_TARGETS"]

    monkeypatch.setenv("HORARIUM_ALLOW_PRIVATE_TARGETS", "10.0.0.0/8")
    bare = dev_stack.Wanted(tmp_path, 0, samples=False)
    (only,) = dev_node._commands(bare, "http://127.0.0.1:1")
    assert only.environment["HORARIUM_ALLOW_PRIVATE_TARGETS"] == "10.0.0.0/8"


def test_settings_are_those_of_a_terminal_unless_others_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = dev_stack.Wanted(tmp_path, 1234)
    monkeypatch.setenv("HORARIUM_DATABASE_URL", "postgresql://production/x")
    monkeypatch.setenv("HORARIUM_HOST", "0.0.0.0")
    monkeypatch.setenv("HORARIUM_LOG_LEVEL", "debug")
    settings = dev_node._settings(wanted, "postgresql://embedded/x")
    assert settings.database_url == "postgresql://embedded/x"
    assert (settings.host, settings.port, settings.env) == ("127.0.0.1", 1234, "dev")
    assert (settings.log_format, settings.log_level) == ("console", "debug")
