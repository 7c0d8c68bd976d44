from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from horarium.domain import job_parsing
from horarium.manifests import reader, writer
from horarium.manifests.importers import crontab, report
from horarium.manifests.importers.report import Kind

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def imported(text: str, **wanted: Any) -> report.Import:
    return crontab.import_crontab(text, crontab.Wanted(**{"name": "deploy", "timezone": "UTC", **wanted}), NOW)


def only_job(text: str, **wanted: Any) -> dict[str, Any]:
    (job,) = imported(text, **wanted).manifest.resolved()
    return job


def findings(text: str, kind: Kind, **wanted: Any) -> list[tuple[int, str]]:
    return [(found.line, found.text) for found in imported(text, **wanted).findings if found.kind is kind]


def test_what_cron_does_is_kept() -> None:
    job = only_job("0 2 * * * backup")
    assert job["retry"] == {"max_attempts": 1}
    assert job["misfire"] == "skip"
    assert job["timeout_s"] == 86_400
    assert job["managed_by"] == "crontab:deploy"


def test_words_stay_words_and_shell_lines_go_through_the_shell() -> None:
    assert only_job("0 2 * * * /bin/backup --all x=1")["target"]["command"]["argv"] == ["/bin/backup", "--all", "x=1"]
    for line in ("a && b", "a > /dev/null", "a $HOME", "a 'b c'", "cd /tmp", "A=b c", "~/bin/a", "a *.txt", "a;b"):
        assert only_job(f"0 2 * * * {line}")["target"]["command"]["argv"] == ["/bin/sh", "-c", line]


def test_the_shell_is_the_one_that_is_set() -> None:
    assert only_job("SHELL=/bin/bash\n0 2 * * * a | b")["target"]["command"]["argv"][0] == "/bin/bash"


def test_settings_hold_for_the_entries_below_them() -> None:
    jobs = imported('A=1\n0 1 * * * a\nA="2"\nHOME=/srv/app\n0 2 * * * b').manifest.jobs
    assert [job["target"]["command"].get("env") for job in jobs] == [{"A": "1"}, {"A": "2", "HOME": "/srv/app"}]
    assert [job["target"]["command"].get("cwd") for job in jobs] == [None, "/srv/app"]


def test_the_zone_of_cron_tz_moves_the_schedule_and_tz_does_not() -> None:
    text = "CRON_TZ=Asia/Kolkata\n0 2 * * * a\nCRON_TZ=UTC\nTZ=Europe/Riga\n0 2 * * * b"
    jobs = imported(text).manifest.resolved()
    assert [job["timezone"] for job in jobs] == ["Asia/Kolkata", "UTC"]
    assert jobs[1]["target"]["command"]["env"] == {"TZ": "Europe/Riga"}
    assert findings(text, Kind.NOTED)[0][0] == 4


def test_an_unknown_zone_refuses_the_entries_below_it_only() -> None:
    found = imported("0 1 * * * a\nCRON_TZ=Mars/Olympus\n0 2 * * * b\n")
    assert len(found.manifest.jobs) == 1
    (refused,) = [finding for finding in found.findings if finding.kind is Kind.REFUSED]
    assert refused.line == 3
    assert "Mars/Olympus" in refused.text


def test_random_delay_becomes_jitter() -> None:
    assert only_job("RANDOM_DELAY=45\n0 2 * * * a")["jitter_s"] == 2700


def test_input_behind_percent_is_kept() -> None:
    job = only_job(r"0 2 * * * mail -s 100\% root%Hello%you")
    assert job["target"]["command"] == {"argv": ["mail", "-s", "100%", "root"], "stdin": "Hello\nyou\n"}
    assert findings("0 2 * * * a%b", Kind.CHANGED) == [(1, "what stands behind % becomes the command's standard input")]
    assert "no command" in findings("0 2 * * * %b", Kind.REFUSED)[0][1]


def test_what_cannot_be_is_refused_with_reason_and_hint() -> None:
    text = "@reboot a\n*/90 * * * * b\n0 22-2 * * * c\n0 0 30 2 * d\n0~59 1 * * * e\n0 2 * * *\n0 3 * * * ok"
    refused = dict(findings(text, Kind.REFUSED))
    assert set(refused) == {1, 2, 3, 4, 5, 6}
    assert "interval_s: 5400" in refused[2]
    assert "22-23,0-2" in refused[3]
    assert "never fires" in refused[4]
    assert [job["schedule"] for job in imported(text).manifest.jobs] == ["0 3 * * *"]


def test_users_and_mail_are_told_of() -> None:
    text = "MAILTO=ops@example.com\n0 1 * * * www-data a\n0 2 * * * root b\n0 3 * * * root c\n"
    told = findings(text, Kind.CHANGED, system=True)
    assert told == [(0, "users root (2), www-data (1): a worker runs commands as its own user; see the tags user:…")]
    assert findings(text, Kind.NOTED, system=True)[0][0] == 1


def test_a_forgotten_user_column_is_noticed() -> None:
    assert "--system" in findings("0 1 * * * root a\n0 2 * * * root b", Kind.NOTED)[0][1]
    assert not findings("0 1 * * * root a\n0 2 * * * b", Kind.NOTED)


def test_a_second_import_gives_the_same_file() -> None:
    text = "# nightly\n0 2 * * * a b\n0 3 * * * a c\n@hourly x | y\n"
    first, second = imported(text), imported(text)
    assert writer.write(first.manifest) == writer.write(second.manifest)
    assert reader.read(writer.write(first.manifest)) == first.manifest


def test_prefix_queue_and_remarks() -> None:
    job = only_job("# Nightly backup.\n0 2 * * * backup", prefix="ops-", queue="commands")
    assert (job["name"], job["queue"], job["description"]) == ("ops-backup", "commands", "Nightly backup.")


def test_every_job_is_one_that_the_catalog_takes() -> None:
    text = "A=1\nHOME=/srv\nRANDOM_DELAY=5\n# Why.\n-0 2 * * * a%in\n@daily b | c\n0 0 1 1 * d\nCRON_TZ=Asia/Tokyo\n1 1 * * * e"
    for job in imported(text, queue="commands").manifest.resolved():
        assert job_parsing.parse(job, now=NOW).name == job["name"]


def test_the_shell_gets_what_cron_would_give_it() -> None:
    command = only_job(r"0 2 * * * printf '\%s-' a; cat%b%c")["target"]["command"]
    done = subprocess.run(command["argv"], input=command["stdin"], capture_output=True, text=True, check=True)
    assert done.stdout == "a-b\nc\n"


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.booleans())
def test_any_bytes_give_a_manifest_that_reads_back(content: bytes, system: bool) -> None:
    found = imported(content.decode("utf-8", "surrogateescape"), system=system)
    text = writer.write(found.manifest)
    assert reader.read(text.encode().decode()) == found.manifest
