from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from tests.cli.story import read

Cli = Callable[..., Result]


def test_a_crontab_goes_live_and_a_second_import_changes_nothing(cli: Cli, ok: Callable[..., str]) -> None:
    Path("ops").write_text("PATH=/usr/bin:/bin\n0 2 * * * echo hi; cat%there\n0 3 * * * /bin/true\n", encoding="utf-8")
    arguments = ("import", "crontab", "ops", "--tz", "Asia/Kolkata", "--apply")
    planned = cli(*arguments, "--dry-run")
    assert planned.exit_code == 2
    assert planned.stderr.count("would be created") == 2
    assert ok("jobs", "list", "--name", "ops.*", "-q") == ""

    assert cli(*arguments).stderr.count("created ") == 2
    again = cli(*arguments, "--dry-run")
    assert (again.exit_code, again.stderr.count("unchanged ops.")) == (0, 2)

    run = cli("jobs", "run", "ops.cat", "--wait", "-q")
    assert run.exit_code == 0
    assert [line.split()[2] for line in ok("runs", "logs", run.stdout.strip()).splitlines()] == ["hi", "there"]

    Path("ops").write_text("PATH=/usr/bin:/bin\n0 4 * * * echo hi; cat%there\n", encoding="utf-8")
    edited = cli(*arguments)
    assert "changed" in edited.stderr
    assert "not here any more: ops.true" in edited.stderr
    assert read(ok("jobs", "get", "ops.cat", "-o", "json"))["schedule"] == "0 4 * * *"

    ok("jobs", "create", "hand.true", "--schedule", "@daily", "--handler", "greet")
    taken = cli("import", "crontab", "-", "--name", "hand", "--tz", "UTC", "--apply", stdin="@daily /bin/true")
    assert taken.exit_code == 4
    assert "made by hand" in taken.stderr
