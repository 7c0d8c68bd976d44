"""Events: told to everyone who listens, and to the log in a few words."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from uuid import UUID

import pytest
import structlog
from structlog.testing import capture_logs

from horarium import events
from horarium.events import Event, Events, Name


def told(name: Name, **fields: Any) -> list[MutableMapping[str, Any]]:
    """What the log says of an event."""
    with capture_logs() as lines:
        Events().tell(name, **fields)
    return lines


@pytest.fixture(autouse=True)
def _plain_log() -> None:
    structlog.reset_defaults()


def test_everyone_who_listens_is_told() -> None:
    heard: list[Event] = []
    source = Events()
    source.tell(Name.RUNS_FIRED, count=1)
    source.listen(heard.append)
    source.listen(heard.append)
    source.tell(Name.RUNS_FIRED, count=2)
    assert heard == [Event(Name.RUNS_FIRED, {"count": 2})] * 2


@pytest.mark.parametrize("name", sorted(events._LOUD))
def test_what_means_trouble_is_a_warning(name: Name) -> None:
    (line,) = told(name, count=3)
    assert (line["event"], line["log_level"], line["count"]) == (str(name), "warning", 3)


@pytest.mark.parametrize("name", sorted(events._QUIET))
def test_the_everyday_is_not_in_the_log(name: Name) -> None:
    assert told(name, count=3) == []


def test_the_rest_is_information() -> None:
    (line,) = told(Name.RUNS_DEAD, count=1)
    assert line["log_level"] == "info"


def test_a_line_names_five_of_many_ids() -> None:
    (line,) = told(Name.LEASES_LAPSED, count=7, run_ids=[UUID(int=n) for n in range(7)])
    assert line["run_ids"] == [*(str(UUID(int=n)) for n in range(5)), "… 2 more"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, 2], ["1", "2"]),
        (UUID(int=1), str(UUID(int=1))),
        ("text", "text"),
        (1.5, 1.5),
        (True, True),
        (None, None),
        (ValueError("no"), "no"),
    ],
)
def test_values_are_plain_in_the_log(value: object, shown: object) -> None:
    (line,) = told(Name.DUTY_FAILED, value=value)
    assert line["value"] == shown
