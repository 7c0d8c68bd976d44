"""What happens, told by name to listeners and to the log."""

from __future__ import annotations

from uuid import UUID

from structlog.testing import capture_logs

from horarium.events import Event, Events, Name

RUNS = [UUID(int=number) for number in range(7)]


def test_every_listener_hears_each_event_in_order() -> None:
    events, first, second = Events(), list[Event](), list[Event]()
    events.listen(first.append)
    events.tell(Name.RUNS_FIRED, count=1)
    events.listen(second.append)
    events.tell(Name.RUNS_DEAD, count=2, run_ids=RUNS)
    late = Event(Name.RUNS_DEAD, {"count": 2, "run_ids": RUNS})
    assert first == [Event(Name.RUNS_FIRED, {"count": 1}), late]
    assert second == [late]


def test_loud_events_are_warnings_and_everyday_ones_are_not_written() -> None:
    with capture_logs() as lines:
        for name in Name:
            Events().tell(name)
    levels = {line["event"]: line["log_level"] for line in lines}
    assert {name for name, level in levels.items() if level == "warning"} == {
        "clock_stepped",
        "job_in_error",
        "leases_lapsed",
        "sweep_found",
        "snapshot_held",
        "duty_failed",
    }
    assert set(Name) - set(levels) == {
        Name.RUNS_FIRED,
        Name.RUNS_CLAIMED,
        Name.RUNS_SUCCEEDED,
        Name.RUNS_RETRIED,
        Name.RUNS_INTERRUPTED,
    }
    assert set(levels.values()) == {"warning", "info"}


def test_a_line_names_five_of_a_batch_and_how_many_more() -> None:
    with capture_logs() as lines:
        Events().tell(Name.LEASES_LAPSED, count=7, run_ids=RUNS, few=tuple(RUNS[:5]), one=RUNS[1], none=None)
    (line,) = lines
    shown = [str(run_id) for run_id in RUNS[:5]]
    assert line["run_ids"] == [*shown, "… 2 more"]
    assert (line["few"], line["one"], line["none"], line["count"]) == (shown, str(RUNS[1]), None, 7)


def test_listeners_are_given_the_whole_batch() -> None:
    events, heard = Events(), list[Event]()
    events.listen(heard.append)
    events.tell(Name.RUNS_SUCCEEDED, run_ids=RUNS)
    assert heard[0].fields["run_ids"] == RUNS
