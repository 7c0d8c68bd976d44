from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

from tests.cli.story import read

Cli = Callable[..., Result]


def test_a_run_that_ends_badly(cli: Cli, ok: Callable[..., str], name: str) -> None:
    ok("jobs", "create", name, "--schedule", "@yearly", "--handler", "doom")
    first, second = (read(cli("jobs", "run", name, "--wait", "-o", "json").stdout) for _ in range(2))
    assert first["state"] == "dead"
    assert cli("runs", "wait", first["id"]).exit_code == 1
    assert cli("runs", "logs", "-f", first["id"]).exit_code == 1

    assert sorted(ok("dlq", "list", "--job", name, "-q").split()) == sorted([first["id"], second["id"]])
    grouped = ok("dlq", "list", "--job", name, "--group").splitlines()
    assert "it was never to be" in grouped[1]
    assert cli("dlq", "retry").exit_code == 2
    assert "Would retry 2" in cli("dlq", "retry", "--all", "--job", name, "--dry-run").stderr
    ok("dlq", "retry", first["id"])
    ok("dlq", "discard", second["id"])
    assert cli("dlq", "discard", "--all", "--job", name, stdin="n\n").exit_code == 1
    assert second["id"] not in ok("dlq", "list", "--job", name, "-q")
