from __future__ import annotations

from datetime import timedelta

import pytest

from horarium.cli import waiting
from horarium.cli.client import Client
from tests.cli.conftest import Reply, Server


def test_each_state_on_the_way_is_told(server: Server) -> None:
    states = ("queued", "queued", "running", "succeeded")
    server.on("GET", "/v1/runs/r", *(Reply(200, {"id": "r", "state": state}) for state in states))
    told: list[str] = []
    run = waiting.wait_for_end(Client([server.url], ""), "r", on_change=lambda run: told.append(run["state"]))
    assert run["state"] == "succeeded"
    assert told == ["queued", "running", "succeeded"]
    assert waiting.exit_code(run) == 0
    assert waiting.exit_code({"state": "dead"}) == 1


def test_it_gives_up_in_time(server: Server) -> None:
    server.on("GET", "/v1/runs/r", Reply(200, {"id": "r", "state": "running"}))
    with pytest.raises(waiting.NotFinishedError, match="it is running"):
        waiting.wait_for_end(Client([server.url], ""), "r", timedelta(milliseconds=50))
