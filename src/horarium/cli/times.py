"""Times for people: `2026-12-01 02:00 +05:30 (in 7 h)`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from horarium import durations

_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)


def now() -> datetime:
    """This machine's clock, in UTC: for what people read, never for what the server decides."""
    return datetime.now(UTC)


def parse(text: str) -> datetime:
    """An RFC 3339 text as an aware datetime, its offset kept."""
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def absolute(instant: datetime) -> str:
    """To the second when it has some, with the offset written as `Z` for UTC."""
    clock = instant.strftime("%Y-%m-%d %H:%M:%S" if instant.second else "%Y-%m-%d %H:%M")
    offset = instant.strftime("%z")
    return f"{clock}Z" if instant.utcoffset() == timedelta(0) else f"{clock} {offset[:3]}:{offset[3:5]}"


def relative(instant: datetime, now: datetime) -> str:
    """`in 7 h`, `3 min ago` or `now`: the largest unit that counts at least one, rounded down."""
    distance = abs(instant - now)
    unit, size = next(((unit, size) for unit, size in _UNITS if distance >= size), ("", distance))
    if not unit:
        return "now"
    span = f"{distance // size} {unit}"
    return f"in {span}" if instant > now else f"{span} ago"


def both(text: str | None, now: datetime) -> str:
    """Absolute and relative; a dash for a time that is absent."""
    if not text:
        return "–"
    instant = parse(text)
    return f"{absolute(instant)} ({relative(instant, now)})"


def rfc3339(instant: datetime) -> str:
    """An aware UTC instant to the second, as the API takes it."""
    return instant.isoformat(timespec="seconds").replace("+00:00", "Z")


def since(text: str, now: datetime) -> str:
    """`2h` as the instant so long ago; anything else as it is, for the server to judge."""
    try:
        return rfc3339(now - durations.parse_duration(text))
    except ValueError:
        return text
