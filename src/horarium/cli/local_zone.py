"""The zone of this machine's clock: the one in which its cron reads crontabs."""

from __future__ import annotations

from pathlib import Path

ETC = Path("/etc")


def name(etc: Path = ETC) -> str | None:
    """The IANA name that /etc/timezone or the link /etc/localtime gives; None where neither does."""
    try:
        written = (etc / "timezone").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        written = ""
    return written or _linked(etc / "localtime")


def _linked(link: Path) -> str | None:
    try:
        target = link.readlink().as_posix()
    except OSError:
        return None
    return target.partition("/zoneinfo/")[2] or None
