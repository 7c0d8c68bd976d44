"""How log lines are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
import structlog

from horarium import logs


@pytest.fixture(autouse=True)
def configured_again() -> Iterator[None]:
    """The settings of the other tests come back."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_lines_for_programs_are_json_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger("test").warning("it_happened", count=2, text="a\nb")
    written = capsys.readouterr()
    line = json.loads(written.err)
    stamp = datetime.fromisoformat(line.pop("timestamp"))
    assert stamp.utcoffset() == timedelta(0)
    assert line == {"event": "it_happened", "level": "warning", "count": 2, "text": "a\nb", "request_id": "r1"}
    assert written.out == ""
    assert written.err.count("\n") == 1


def test_an_exception_is_part_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "info")
    try:
        raise ValueError("boo")
    except ValueError:
        structlog.get_logger("test").exception("it_failed")
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "error"
    assert "ValueError: boo" in line["exception"]


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", "debug info warning"), ("info", "info warning"), ("WARNING", "warning"), ("error", "")],
)
def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str], level: str, written: str) -> None:
    logs.configure("json", level)
    logger = structlog.get_logger("test")
    logger.debug("debug")
    logger.info("info")
    logger.warning("warning")
    lines = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert lines == written.split()


def test_lines_for_people_are_plain_where_nobody_looks_at_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console", "info")
    structlog.get_logger("test").info("it_happened", count=2)
    written = capsys.readouterr().err
    assert "it_happened" in written
    assert "count=2" in written
    assert "\x1b" not in written
