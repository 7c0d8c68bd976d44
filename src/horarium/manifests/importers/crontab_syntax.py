"""The lines of a crontab, read as cron reads them (crontab(5) of Debian and cronie).

A line is a comment, a setting `NAME=value` that holds for the entries below it, or an entry: five fields or a macro, in
the system's crontabs a user, and a command that reaches to the end of the line. There is no continuation of lines and
no comment behind a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SETTING = re.compile(
    r"""(?: "(?P<double>[^"]*)" | '(?P<single>[^']*)' | (?P<bare>[^\s=]+) ) [ \t]* = [ \t]*
        (?: "(?P<in_double>[^"]*)" | '(?P<in_single>[^']*)' | (?P<plain>[^"'].*)? ) [ \t]*""",
    re.VERBOSE,
)
_FIELDS = 5
# Control characters but the tab, and what `surrogateescape` makes of bytes that are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")
# An entry that somebody has switched off, and the heading that many files carry.
_NO_REMARK = re.compile(
    r"(?:@[a-z]+|[0-9*][0-9*,/-]*(?:[ \t]+[0-9a-z*,/-]+){4})[ \t]+\S|m[ \t]+h[ \t]+dom\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that holds for every entry below."""

    line: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to do. `command` is as written, `%` and all; `remark` is the comment that stands right above.

    `user` is None in a user's own crontab; `silent` tells of a `-` before the fields (do not log).
    """

    line: int
    schedule: str
    user: str | None
    command: str
    remark: str = ""
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that cron would refuse, and why."""

    line: int
    reason: str


Line = Setting | Entry | Unreadable


def read(text: str, *, system: bool) -> Iterator[Line]:
    """Every line that is no comment. `system`: entries name a user before the command, as those of /etc/cron.d do.

    `text` is what `surrogateescape` makes of the file's bytes; what is not UTF-8 is unreadable.
    """
    remarks: list[str] = []
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r").lstrip(" \t")
        if line.startswith("#"):
            remarks.append(_UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", line.strip("# \t")))
            continue
        if _UNPRINTABLE.search(line):
            yield Unreadable(number, "holds control characters, or bytes that are not UTF-8")
        elif line.strip():
            yield _read_line(number, line, system, _remark(remarks))
        remarks = []


def split_input(command: str) -> tuple[str, str | None]:
    r"""What the shell gets and what stands on its standard input: an unescaped `%` parts them, `\%` is a plain `%`.

    In the input each further `%` is a line end, and the last line is ended where it is not.
    """
    shell, rest = _until_percent(command)
    if rest is None:
        return shell, None
    lines = re.sub(r"\\?%", lambda found: "%" if len(found[0]) == 2 else "\n", rest)
    return shell, lines if not lines or lines.endswith("\n") else lines + "\n"


def _read_line(number: int, line: str, system: bool, remark: str) -> Line:
    setting = _SETTING.fullmatch(line)
    if setting:
        return Setting(number, _first(setting, "double", "single", "bare"), _value(setting))
    silent = line.startswith("-")
    parts = re.split(r"[ \t]+", line.removeprefix("-"), maxsplit=1 if line.startswith("@") else _FIELDS)
    schedule, command = " ".join(parts[:-1]), parts[-1]
    if len(parts) != (2 if line.startswith("@") else _FIELDS + 1):
        return Unreadable(number, "not an entry: five fields and a command are needed")
    user = None
    if system:
        user, *rest = re.split(r"[ \t]+", command, maxsplit=1)
        command = "".join(rest)
    if not command.strip():
        return Unreadable(number, "no user and command" if system and not user else "no command")
    return Entry(number, schedule, user, command.rstrip(" \t"), remark, silent)


def _value(setting: re.Match[str]) -> str:
    quoted = setting["in_double"] if setting["in_double"] is not None else setting["in_single"]
    return quoted if quoted is not None else (setting["plain"] or "").rstrip(" \t")


def _first(found: re.Match[str], *groups: str) -> str:
    return next((found[group] for group in groups if found[group] is not None), "")


def _until_percent(command: str) -> tuple[str, str | None]:
    """Up to the first unescaped `%`, with `\\%` made plain; and what stands behind it."""
    shell: list[str] = []
    position = 0
    while position < len(command):
        character = command[position]
        pair = command[position : position + 2]
        if character == "%":
            return "".join(shell), command[position + 1 :]
        shell.append("%" if pair == r"\%" else pair if character == "\\" else character)
        position += len(pair) if character == "\\" else 1
    return "".join(shell), None


def _remark(remarks: list[str]) -> str:
    """The comment as one text: what stands below the last switched-off entry or heading."""
    kept: list[str] = []
    for remark in remarks:
        kept = [] if _NO_REMARK.match(remark) else [*kept, remark]
    return " ".join(part for part in kept if part)
