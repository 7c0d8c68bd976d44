"""Crontabs become manifests that mean the same.

What cron does is kept: a command line goes through the same shell with the same variables, nothing is tried again, a
missed fire is dropped, nothing is stopped for taking long. What cannot be kept is said, line by line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from horarium import errors
from horarium.domain import schedule as schedules
from horarium.manifests import manifest
from horarium.manifests.importers import command_names
from horarium.manifests.importers.crontab_syntax import Entry, Setting, Unreadable, read, split_input
from horarium.manifests.importers.report import Finding, Import, Kind

# cron tries nothing again, drops what it missed, and never stops a command: 24 h is the longest timeout there is.
CRON_WAYS: Mapping[str, Any] = {"retry": {"max_attempts": 1}, "misfire": "skip", "timeout_s": 86_400}

DEFAULT_SHELL = "/bin/sh"
LONGEST_REMARK = 500

_FOR_MAIL = frozenset({"MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"})
_FOR_CRON = frozenset({"CRON_TZ", "RANDOM_DELAY", "SHELL"})
_OWN_BY_LOGIN = frozenset({"LOGNAME", "USER"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\- \t]+")
_BUILTINS = frozenset(
    [
        ".",
        ":",
        "alias",
        "bg",
        "break",
        "cd",
        "command",
        "continue",
        "echo",
        "eval",
        "exec",
        "exit",
        "export",
        "false",
        "fc",
        "fg",
        "getopts",
        "hash",
        "if",
        "case",
        "for",
        "while",
        "until",
        "jobs",
        "kill",
        "printf",
        "pwd",
        "read",
        "readonly",
        "return",
        "set",
        "shift",
        "source",
        "test",
        "time",
        "times",
        "trap",
        "true",
        "type",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ]
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How to import. `name` names the file (`sysstat`); `timezone` is the zone in which the host's cron reads times."""

    name: str
    timezone: str
    system: bool = False
    queue: str | None = None
    prefix: str | None = None


@dataclass(slots=True)
class _Surroundings:
    """What the settings above an entry say."""

    timezone: str
    shell: str = DEFAULT_SHELL
    jitter_s: int = 0
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Draft:
    entry: Entry
    job: dict[str, Any]


def import_crontab(text: str, wanted: Wanted, now: datetime) -> Import:
    """The jobs of a crontab, and a finding for each line. `now` only serves to find schedules that never fire."""
    findings: list[Finding] = []
    drafts = list(_drafts(text, wanted, now, findings))
    jobs = _named(drafts, wanted, findings)
    findings += _about_the_file(text, drafts, wanted)
    defaults = {
        "managed_by": f"crontab:{wanted.name}",
        "timezone": wanted.timezone,
        **({"queue": wanted.queue} if wanted.queue else {}),
        **CRON_WAYS,
    }
    found = manifest.Manifest(f"crontab-{wanted.name}", jobs, defaults)
    return Import(found, sorted(findings, key=lambda finding: finding.line))


def _drafts(text: str, wanted: Wanted, now: datetime, findings: list[Finding]) -> Iterator[_Draft]:
    surroundings = _Surroundings(wanted.timezone)
    for line in read(text, system=wanted.system):
        match line:
            case Setting():
                findings += _apply(line, surroundings)
            case Unreadable(number, reason):
                findings.append(Finding(number, Kind.REFUSED, reason))
            case Entry():
                try:
                    yield _draft(line, surroundings, wanted, now, findings)
                except errors.InvalidScheduleError as error:
                    reason = f"{line.schedule}: {error.detail}" + (f" ({error.hint})" if error.hint else "")
                    findings.append(Finding(line.line, Kind.REFUSED, reason))
                except ValueError as error:
                    findings.append(Finding(line.line, Kind.REFUSED, str(error)))


def _apply(setting: Setting, surroundings: _Surroundings) -> Iterator[Finding]:
    """Take a setting into account; what it loses or changes is a finding."""
    name, value = setting.name, setting.value
    if name in _FOR_MAIL:
        if value:
            yield _noted(setting, f"{name}={value}: no mail is sent; what a run prints is kept with the run")
    elif name == "CRON_TZ":
        surroundings.timezone = value
    elif name == "SHELL":
        surroundings.shell = value or DEFAULT_SHELL
    elif name == "RANDOM_DELAY":
        surroundings.jitter_s = 60 * int(value) if value.isdecimal() else 0
        yield _noted(setting, f"RANDOM_DELAY={value} becomes jitter_s: {surroundings.jitter_s}")
    elif name in _OWN_BY_LOGIN:
        yield _noted(setting, f"{name} cannot be set in a crontab; left out")
    elif not _VARIABLE.fullmatch(name):
        yield Finding(setting.line, Kind.REFUSED, f"{name!r} is not a name of a variable")
    else:
        surroundings.variables[name] = value
        if name == "TZ":
            yield _noted(setting, f"TZ={value} is set for the commands only; CRON_TZ or --tz moves the schedules")


def _draft(entry: Entry, surroundings: _Surroundings, wanted: Wanted, now: datetime, findings: list[Finding]) -> _Draft:
    schedules.check(schedules.Schedule(schedules.Cron(entry.schedule, surroundings.timezone)), now)
    shell, stdin = split_input(entry.command)
    if not shell.strip():
        raise ValueError("nothing stands before the first %, so there is no command")
    job: dict[str, Any] = {"schedule": entry.schedule}
    if surroundings.timezone != wanted.timezone:
        job["timezone"] = surroundings.timezone
    if surroundings.jitter_s:
        job["jitter_s"] = surroundings.jitter_s
    if entry.remark:
        job["description"] = entry.remark[:LONGEST_REMARK]
    job["tags"] = ["crontab", *([f"user:{entry.user}"] if entry.user else [])]
    job["target"] = {"command": _command(shell, stdin, surroundings)}
    if stdin is not None:
        findings.append(Finding(entry.line, Kind.CHANGED, "what stands behind % becomes the command's standard input"))
    if entry.silent:
        findings.append(Finding(entry.line, Kind.CHANGED, "the - before the fields (do not log) is left out"))
    return _Draft(entry, job)


def _command(shell: str, stdin: str | None, surroundings: _Surroundings) -> dict[str, Any]:
    variables = surroundings.variables
    command: dict[str, Any] = {"argv": _argv(shell, surroundings.shell)}
    if variables:
        command["env"] = dict(variables)
    if variables.get("HOME", "").startswith("/"):
        command["cwd"] = variables["HOME"]  # cron starts commands there
    if stdin is not None:
        command["stdin"] = stdin
    return command


def _argv(line: str, shell: str) -> list[str]:
    """The words themselves where no shell is needed to find them; else the shell that cron would start."""
    words = line.split()
    needs_shell = not _PLAIN.fullmatch(line) or words[0] in _BUILTINS or "=" in words[0]
    return [shell, "-c", line.strip(" \t")] if needs_shell else words


def _named(drafts: Sequence[_Draft], wanted: Wanted, findings: list[Finding]) -> list[dict[str, Any]]:
    prefix = f"{wanted.name}." if wanted.prefix is None else wanted.prefix
    commands = [(split_input(draft.entry.command)[0], f"{draft.entry.user} {draft.entry.schedule}") for draft in drafts]
    jobs = []
    for draft, name in zip(drafts, command_names.name_all(commands), strict=True):
        job = {"name": prefix + name, **draft.job}
        zone = job.get("timezone", wanted.timezone)
        findings.append(Finding(draft.entry.line, Kind.IMPORTED, f"{job['name']}: {draft.entry.schedule} in {zone}"))
        jobs.append(job)
    return jobs


def _about_the_file(text: str, drafts: Sequence[_Draft], wanted: Wanted) -> Iterator[Finding]:
    if "\r\n" in text:
        yield Finding(0, Kind.CHANGED, "the line ends are those of Windows; cron would hand the CR to the commands")
    users = Counter(draft.entry.user for draft in drafts if draft.entry.user)
    if users:
        listed = ", ".join(f"{user} ({count})" for user, count in sorted(users.items()))
        yield Finding(0, Kind.CHANGED, f"users {listed}: a worker runs commands as its own user; see the tags user:…")
    first_words = {draft.entry.command.split()[0] for draft in drafts}
    if not wanted.system and first_words == {"root"}:
        yield Finding(0, Kind.NOTED, "every command begins with root: if that is the user column, import with --system")


def _noted(setting: Setting, text: str) -> Finding:
    return Finding(setting.line, Kind.NOTED, text)
