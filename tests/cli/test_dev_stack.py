from __future__ import annotations

import socket
from pathlib import Path

import pytest

from horarium import errors
from horarium.cli import dev_stack


def test_a_taken_port_is_told() -> None:
    dev_stack.check_port(0)
    with socket.socket() as taken:
        taken.bind((dev_stack.HOST, 0))
        taken.listen()
        with pytest.raises(errors.ConfigurationError, match="--port"):
            dev_stack.check_port(taken.getsockname()[1])


def test_files_have_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = dev_stack.Wanted(Path(".horarium"), 0)
    assert wanted.key_file == tmp_path / ".horarium" / "api_key"
    assert wanted.workers_log == tmp_path / ".horarium" / "workers.log"
