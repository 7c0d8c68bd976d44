from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli import node as nodes
from tests.cli.story import read

Cli = Callable[..., Result]


def test_everything_is_well_or_what_to_do(cli: Cli, connected: nodes.Node, tmp_path: Path) -> None:
    well = cli("doctor", "--database-url", connected.database_url, "-o", "json")
    results = {row["check"]: row["result"] for row in read(well.stdout)}
    assert "fail" not in results.values(), well.output
    assert {"server", "readiness", "key", "workers", "postgresql", "schema", "clock", "snapshots", "shards"} <= set(
        results
    )
    assert well.exit_code == 0

    (tmp_path / "bad.key").write_text("hrm_no", encoding="utf-8")
    ill = cli("doctor", "--api-key-file", str(tmp_path / "bad.key"))
    assert ill.exit_code == 1
    assert "horarium keys create" in ill.stdout
    unreachable = cli("doctor", "--url", "http://127.0.0.1:1", "--database-url", "postgresql://127.0.0.1:1/x")
    assert unreachable.exit_code == 1
    assert "is PostgreSQL up" in unreachable.stdout
