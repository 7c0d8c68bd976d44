from __future__ import annotations

import urllib.request
from pathlib import Path

from tests.cli import node as nodes


def test_it_answers_where_it_says_and_stops_in_order(database_url: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    flags = ("--port", "0", "--base-path", "/ops", "--first-key-file", str(key), "--log-level", "error")
    with nodes.process("serve", *flags, HORARIUM_DATABASE_URL=database_url) as serving:
        url = nodes.awaited(serving)
        assert url.endswith("/ops")
        with urllib.request.urlopen(f"{url}/readyz", timeout=10) as answer:
            assert answer.status == 200
    assert key.read_text(encoding="utf-8").startswith("hrm_live_")


def test_a_database_without_the_schema_is_told_with_what_to_do(empty_database_url: str) -> None:
    with nodes.process("serve", "--port", "0", HORARIUM_DATABASE_URL=empty_database_url) as serving:
        printed, _ = serving.communicate(timeout=30)
    assert serving.returncode == 2
    assert "horarium db migrate" in printed


def test_faults_of_the_configuration_are_told_all_at_once() -> None:
    wrong = {"HORARIUM_DATABASE_URL": "mysql://x", "HORARIUM_LEASE": "15", "HORARIUM_PROT": "1"}
    with nodes.process("serve", **wrong) as serving:
        printed, _ = serving.communicate(timeout=30)
    assert serving.returncode == 2
    assert "must begin with postgresql://" in printed
    assert "write 15s" in printed
    assert "did you mean HORARIUM_PORT?" in printed
