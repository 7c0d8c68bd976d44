from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

from tests.cli.story import read

Cli = Callable[..., Result]


def test_a_run_by_hand_is_waited_for_and_followed(cli: Cli, ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--schedule", "@yearly", "--handler", "greet")
    made = cli("jobs", "run", name, "--payload", '{"name": "Ada"}', "--wait", "--timeout", "30s", "-o", "json")
    assert made.exit_code == 0
    run = read(made.stdout)
    assert (run["state"], run["result"]) == ("succeeded", {"hello": "Ada"})

    followed = cli("runs", "logs", "-f", run["id"])
    assert followed.exit_code == 0
    assert "saying hello name=Ada" in followed.stdout
    assert "is succeeded" in followed.stderr
    assert read(ok("runs", "logs", run["id"], "-o", "jsonl"))["message"] == "saying hello"
    assert "succeeded" in ok("runs", "get", run["id"])
    assert run["id"] in ok("jobs", "runs", name)
    assert run["id"] in ok("runs", "list", "--job", name, "--state", "succeeded", "--since", "1h", "-q").split()

    again = read(ok("runs", "rerun", run["id"], "--wait", "-o", "json"))
    assert (again["rerun_of"], again["state"]) == (run["id"], "succeeded")
    assert cli("runs", "wait", again["id"]).exit_code == 0
    assert "succeeded" in ok("jobs", "list", "--name", name)
