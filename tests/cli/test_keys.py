from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli import node as nodes
from tests.cli.story import read

Cli = Callable[..., Result]


def test_keys(cli: Cli, ok: Callable[..., str], node: nodes.Node, tmp_path: Path) -> None:
    file = tmp_path / "viewer.key"
    ok("keys", "create", "seer", "--role", "viewer", "--expires-in", "1d", "--to-file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("jobs", "list", "--api-key-file", str(file)).exit_code == 0
    refused = cli("--api-key-file", str(file), "jobs", "create", "x", "--schedule", "@daily", "--handler", "a")
    assert refused.exit_code == 1

    token = ok("keys", "create", "second", "--role", "worker", "-q").strip()
    assert token.startswith("hrm_")
    direct = cli("keys", "create", "root", "--role", "admin", "--database-url", node.database_url, "-o", "json")
    key = read(direct.stdout)
    rows = {line.split()[1]: line.split() for line in ok("keys", "list").splitlines()}
    assert rows["seer"][2] == "viewer"
    assert rows["root"][0] == key["id"]
    assert "Would revoke" in cli("keys", "revoke", key["id"], "--dry-run").stderr
    ok("keys", "revoke", rows["seer"][0])
    assert cli("jobs", "list", "--api-key-file", str(file)).exit_code == 1
