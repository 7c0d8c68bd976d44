"""The rules T3 and T4 once more, minute by minute, as slowly and as plainly as they are written.

Every minute of a stretch of elapsed time is looked at with what the clock shows in it; no shortcut of the real
arithmetic is used. Zones are those of the pinned data, from 1972 on, when the last offset became a whole minute.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from horarium.domain import cron, cron_count, zones

MINUTE = timedelta(minutes=1)
FIRST, LAST = datetime(1972, 6, 1, tzinfo=UTC), datetime(2045, 1, 1, tzinfo=UTC)

# More than the longest gap, so that both its ends are seen from within.
MARGIN = timedelta(hours=25)


@dataclass(frozen=True)
class Question:
    """The fires of an expression with after < fire <= until. Both instants are whole minutes."""

    expression: str
    zone: str
    after: datetime
    until: datetime


def minutes(tz: ZoneInfo, low: datetime, high: datetime) -> list[tuple[datetime, datetime]]:
    """Each minute from low to high as (instant, what the clock shows)."""
    count = (high - low) // MINUTE
    instants = (low + n * MINUTE for n in range(count + 1))
    return [(instant, instant.astimezone(tz).replace(tzinfo=None, fold=0)) for instant in instants]


def fires(question: Question) -> list[datetime]:
    """What the rules say, found by looking at every minute."""
    tz, parsed = ZoneInfo(question.zone), cron.parse(question.expression)
    shown = minutes(tz, question.after - MARGIN, question.until + MARGIN)
    wanted_minutes, wanted_hours = (set(each.values()) for each in parsed.fields[1:3])

    def matches(wall: datetime) -> bool:
        return wall.minute in wanted_minutes and wall.hour in wanted_hours and parsed.matches_day(wall)

    if parsed.is_wildcard:
        found = {instant for instant, wall in shown if matches(wall)}
    else:
        found = set(_fixed_time(shown, matches))
    return sorted(instant for instant in found if question.after < instant <= question.until)


def _fixed_time(shown: Sequence[tuple[datetime, datetime]], matches: Callable[[datetime], bool]) -> Iterator[datetime]:
    """Each wall-clock minute that matches, at its first instant; one that does not exist, at the next that does."""
    first_shown: dict[datetime, datetime] = {}
    for instant, wall in shown:
        first_shown.setdefault(wall, instant)
    lowest, wall, resolved = min(first_shown), max(first_shown), None
    while wall >= lowest:
        resolved = first_shown.get(wall, resolved)
        if matches(wall) and resolved is not None:
            yield resolved
        wall -= MINUTE


def answers(question: Question) -> dict[str, object]:
    """What the real arithmetic says, forward, backward and by counting."""
    return {
        "forward": list(_forward(question)),
        "backward": list(_backward(question))[::-1],
        "count": cron_count.count(question.expression, question.zone, question.after, question.until, 10**9),
    }


def _forward(question: Question) -> Iterator[datetime]:
    fire = cron.next_fire(question.expression, question.zone, question.after)
    while fire is not None and fire <= question.until:
        yield fire
        fire = cron.next_fire(question.expression, question.zone, fire)


def _backward(question: Question) -> Iterator[datetime]:
    fire = cron.previous_fire(question.expression, question.zone, question.until + timedelta(microseconds=1))
    while fire is not None and fire > question.after:
        yield fire
        fire = cron.previous_fire(question.expression, question.zone, fire)


def disagreements(seed: int, count: int) -> list[str]:
    """Draw questions around changes of clocks of all zones, and tell where rules and arithmetic differ.

    The suite asks a few hundred; a run over tens of thousands takes an hour and is called by hand.
    """
    drawer = random.Random(seed)
    names = sorted(zones.known_names())
    found = []
    for _ in range(count):
        question = draw(drawer, names)
        want = fires(question)
        got = answers(question)
        if got != {"forward": want, "backward": want, "count": (len(want), True)}:
            found.append(f"{question}: rules {want[:5]}, arithmetic {got}")
    return found


def draw(drawer: random.Random, names: list[str]) -> Question:
    """A question about a few hours on both sides of some change of clocks."""
    shift, name = None, ""
    while shift is None:
        name = drawer.choice(names)
        start = FIRST + drawer.random() * (LAST - FIRST)
        shift = next(zones.shifts(zones.zone(name), start, start + timedelta(days=200)), None)
    after = shift.at.replace(second=0) - drawer.randrange(0, 400) * MINUTE
    return Question(_expression(drawer), name, after, after + drawer.randrange(1, 1600) * MINUTE)


def _expression(drawer: random.Random) -> str:
    minute = drawer.choice(["0", "30", "0,30", "*/20", "*", _field(drawer, 0, 59)])
    hour = drawer.choice(["*", "0-23", "2", "1-3", "*/2", "*/3", _field(drawer, 0, 4), _field(drawer, 0, 23)])
    day, weekday = drawer.choice([("*", "*"), ("*", "*"), ("*/2", "*"), ("*", "1-5"), ("L", "0"), ("*/3", "*/2")])
    return f"{minute} {hour} {day} * {weekday}"


def _field(drawer: random.Random, low: int, high: int) -> str:
    first, last = sorted((drawer.randint(low, high), drawer.randint(low, high)))
    return drawer.choice([f"{first}", f"{first}-{last}", f"{first},{last}", f"{first}/{drawer.randint(1, high)}"])
