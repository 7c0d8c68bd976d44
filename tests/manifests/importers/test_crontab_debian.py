"""Crontabs that Debian packages install, rebuilt from facts about them: see tests/data/debian_crontabs/README.md."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from horarium.domain import schedule as schedules
from horarium.manifests import reader, writer
from horarium.manifests.importers import command_names, crontab, report

FACTS = sorted((Path(__file__).parents[2] / "data" / "debian_crontabs").glob("*.json"))


@pytest.fixture(params=FACTS, ids=lambda path: path.stem)
def facts(request: pytest.FixtureRequest) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return read


@pytest.fixture
def imported(facts: dict[str, Any]) -> report.Import:
    wanted = crontab.Wanted(Path(facts["file"]).name, facts["zone"], system=True)
    return crontab.import_crontab(rebuild(facts), wanted, datetime.fromisoformat(facts["after"]))


def rebuild(facts: dict[str, Any]) -> str:
    """A crontab with the same settings and entries on the same lines."""
    lines = {setting["line"]: f"{setting['name']}={setting['value']}" for setting in facts["settings"]}
    for entry in facts["entries"]:
        percent = r" [ $(date +\%d) -le 7 ] &&" if entry["escaped_percent"] else ""
        program = entry["program"]
        lines[entry["line"]] = f"{entry['schedule']}\t{entry['user']}\t[ -x {program} ] &&{percent} {program}"
    return "\n".join(lines.get(number, "#") for number in range(1, max(lines) + 1)) + "\n"


def test_there_are_enough_of_them() -> None:
    assert len(FACTS) >= 20


def test_each_entry_becomes_a_job_that_fires_when_cron_would(facts: dict[str, Any], imported: report.Import) -> None:
    expected = [entry for entry in facts["entries"] if entry["becomes"] == "imported"]
    jobs = reader.read(writer.write(imported.manifest)).resolved()
    assert len(jobs) == len(expected)
    for job, entry in zip(jobs, expected, strict=True):
        assert job["schedule"] == entry["schedule"]
        assert f"user:{entry['user']}" in job["tags"]
        assert fires(job, datetime.fromisoformat(facts["after"]), len(entry["fires"])) == entry["fires"]


def test_the_program_gives_the_name_and_the_settings_go_with_it(facts: dict[str, Any], imported: report.Import) -> None:
    expected = [entry for entry in facts["entries"] if entry["becomes"] == "imported"]
    names = command_names.name_all([(entry["program"], "") for entry in expected])
    variables = {s["name"]: s["value"] for s in facts["settings"] if s["name"] not in {"SHELL", "MAILTO"}}
    for job, entry, name in zip(imported.manifest.jobs, expected, names, strict=True):
        command = job["target"]["command"]
        assert job["name"].startswith(f"{Path(facts['file']).name}.{command_names.name_of(entry['program'])}")
        assert name.startswith(command_names.name_of(entry["program"]))
        assert command.get("env", {}) == variables
        assert command["argv"][:2] == ["/bin/sh", "-c"]
        assert r"\%" not in command["argv"][2]


def test_the_report_tells_the_rest(facts: dict[str, Any], imported: report.Import) -> None:
    refused = {finding.line for finding in imported.findings if finding.kind is report.Kind.REFUSED}
    assert refused == {entry["line"] for entry in facts["entries"] if entry["becomes"] == "refused"}
    imported_lines = {finding.line for finding in imported.findings if finding.kind is report.Kind.IMPORTED}
    assert imported_lines == {entry["line"] for entry in facts["entries"] if entry["becomes"] == "imported"}
    mail = {finding.line for finding in imported.findings if "MAILTO" in finding.text}
    assert mail == {setting["line"] for setting in facts["settings"] if setting["name"] == "MAILTO"}


def fires(job: dict[str, Any], after: datetime, count: int) -> list[str]:
    wanted = schedules.Schedule(schedules.Cron(job["schedule"], job["timezone"]))
    found = []
    for _ in range(count):
        fire = schedules.next_fire(wanted, after)
        assert fire is not None
        found.append(fire.isoformat().replace("+00:00", "Z"))
        after = fire
    return found
