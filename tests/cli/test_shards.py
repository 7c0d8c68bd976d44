"""`horarium shards`: a shard is moved from the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

Cli = Callable[..., Result]


def test_a_shard_is_moved_and_shown_where_it_is(
    cli: Cli, empty_database_urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("horarium.services.mover.GRACE_S", 0)
    both = ("--database-url", ",".join(empty_database_urls))
    assert cli("db", "init", "--shards", "4", *both).exit_code == 0
    assert "Would move shard 1 from b to a." in cli("shards", "move", "1", "--to", "a", "--dry-run", *both).stdout

    moved = cli("shards", "move", "1", "--to", "a", *both)
    assert moved.exit_code == 0
    assert moved.stdout == "Moved shard 1 from b to a.\n"
    steps = [line.partition(":")[0] for line in moved.stderr.splitlines()]
    assert list(dict.fromkeys(steps)) == ["prepare", "history", "ahead", "pause", "copy", "leave", "arrive", "clear"]
    assert "3: 0 1 2" in cli("db", "status", *both).stdout
    assert "lives in database a already" in cli("shards", "move", "1", "--to", "a", *both).stdout

    assert cli("shards", "move", "1", "--to", "c", *both).exit_code == 3
    assert cli("shards", "move", "9", "--to", "a", *both).exit_code == 3
    missing = cli("shards", "move", "1", "--to", "a", "--database-url", empty_database_urls[0])
    assert missing.exit_code == 2
