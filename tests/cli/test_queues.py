from __future__ import annotations

from collections.abc import Callable


def test_a_queue_that_nobody_serves_shows_what_waits(ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--at", "now", "--handler", "nobody.has.this", "--queue", "lonely")
    rows = {line.split()[0]: line.split() for line in ok("queues", "list").splitlines()}
    assert rows["lonely"][2] == "1"
    assert rows["lonely"][-2:] == ["0", "0"]
