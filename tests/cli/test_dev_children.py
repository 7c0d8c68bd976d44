from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from horarium.cli import dev_children
from tests.cli.conftest import Reply, Server
from tests.cli.story import shown_within


def test_one_that_ends_is_told_of_once(tmp_path: Path) -> None:
    children = dev_children.Children()
    log = tmp_path / "log"
    children.start(dev_children.Command("good", ["cron", "next", "@daily", "-q", "--count", "1"], {}, log))
    children.start(dev_children.Command("bad", ["cron", "next", "@never"], {}, log))
    ended: dict[str, int] = {}
    shown_within(20, lambda: ended.update(children.ended()) or len(ended) == 2)
    assert ended == {"good": 0, "bad": 2}
    assert children.ended() == {}
    assert "T00:00:00Z" in log.read_text(encoding="utf-8")


async def test_all_are_told_to_stop_and_waited_for(server: Server, tmp_path: Path) -> None:
    asked = threading.Event()

    def accept(_: object) -> Reply:
        asked.set()
        return Reply(200, {"leases": []})

    server.on("POST", "/v1/worker/lease", accept)
    children = dev_children.Children()
    children.start(dev_children.Command("worker", ["worker", "--http"], {"HORARIUM_URL": server.url}, tmp_path / "log"))
    assert asked.wait(20)
    await children.stop()
    assert children.ended() == {}
    await children.stop()


def test_a_child_whose_parent_is_gone_does_not_begin() -> None:
    command = [sys.executable, "-m", "horarium.cli.dev_child", "1", "version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ended before its worker began" in done.stderr
