from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml
from click.testing import Result

Cli = Callable[..., Result]


def test_a_crontab_becomes_yaml_and_a_report(cli: Cli) -> None:
    Path("deploy.txt").write_text("MAILTO=me\n@reboot a\n0 2 * * * /bin/backup\n", encoding="utf-8")
    result = cli("import", "crontab", "deploy.txt", "--tz", "Asia/Kolkata")
    assert result.exit_code == 2, "a line was refused"
    manifest = yaml.safe_load(result.stdout)
    assert manifest["manifest"] == "crontab-deploy"
    assert [job["name"] for job in manifest["jobs"]] == ["deploy.backup"]
    assert "line 2    refused   @reboot" in result.stderr
    assert "deploy.txt: 1 noted, 1 refused, 1 imported" in result.stderr

    again = cli(
        "import", "crontab", "-", "--tz", "Asia/Kolkata", "--name", "ops", "--output", "o.yaml", stdin="@daily a"
    )
    assert (again.exit_code, again.stdout) == (0, "")
    assert yaml.safe_load(Path("o.yaml").read_text(encoding="utf-8"))["jobs"][0]["name"] == "ops.a"


def test_a_crontab_without_a_zone_is_read_in_that_of_this_machine(cli: Cli) -> None:
    result = cli("import", "crontab", "-", stdin="@daily a")
    assert "the zone of this machine; --tz names another" in result.stderr
    assert cli("import", "crontab", "-", "--tz", "Nowhere", stdin="@daily a").exit_code == 2
    assert cli("import", "crontab", "missing").exit_code == 1
