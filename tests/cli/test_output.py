from __future__ import annotations

import json

import pytest
import yaml

from horarium.cli import options, output


def test_what_comes_over_the_network_cannot_steer_the_terminal() -> None:
    assert output.clean("a\x1b[31mb\x07\u202ec\x85") == "a�[31mb��c�"
    assert output.clean("a\nb\tc") == "a b c"
    assert output.clean("a\nb\tc", keep="\n") == "a\nb c"
    assert output.clean("कर्म\u200dकार्य ü 漢") == "कर्म\u200dकार्य ü 漢"


ITEMS = [{"id": 1, "name": "a", "state": "dead"}, {"id": 2, "name": None, "state": "ok\x1b[2J"}]
COLUMNS = [output.Column("NAME", lambda item: item["name"] or "–"), output.Column("STATE", lambda item: item["state"])]


def printed(capsys: pytest.CaptureFixture[str], **how: object) -> str:
    output.show_list(options.Invocation(**how), ITEMS, COLUMNS, "name")  # type: ignore[arg-type]  # by keyword
    return capsys.readouterr().out


def test_a_list_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, output="json")) == ITEMS
    assert yaml.safe_load(printed(capsys, output="yaml")) == ITEMS
    assert [json.loads(line) for line in printed(capsys, output="jsonl").splitlines()] == ITEMS
    assert printed(capsys, output="name") == printed(capsys, quiet=True) == "a\n2\n"
    assert [line.split() for line in printed(capsys).splitlines()] == [
        ["NAME", "STATE"],
        ["a", "dead"],
        ["–", "ok�[2J"],
    ]


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(["A", "B"], [["x" * 500, "y"]])
    assert f"{'x' * 500}  y" in capsys.readouterr().out


def test_one_thing_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [("name", "a"), ("empty", None), ("next", "1\n2")]
    for how, expected in [("json", '{\n  "id": 1\n}\n'), ("jsonl", '{"id":1}\n'), ("yaml", "id: 1\n"), ("name", "1\n")]:
        output.show_one(options.Invocation(output=how), {"id": 1}, lines, "name")
        assert capsys.readouterr().out == expected
    output.show_one(options.Invocation(), {"id": 1}, lines, "name")
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [["name", "a"], ["next", "1"], ["2"]]


def test_numbers_keep_every_digit_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    raw = b'{"n": 1.10, "big": 12345678901234567890.123456789}'
    for how, expected in [("json", raw.decode()), ("jsonl", raw.decode().replace(" ", ""))]:
        output.show_one(options.Invocation(output=how), json.loads(raw), [], "n", raw=raw)
        assert " ".join(capsys.readouterr().out.split()).replace("{ ", "{").replace(" }", "}") == expected


def test_remarks_go_to_stderr_unless_it_is_to_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(options.Invocation(), "hello\x07")
    output.say(options.Invocation(quiet=True), "silence")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello�\n")


def test_things_are_given_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(output.tracked(range(100), "working")) == list(range(100))
    assert capsys.readouterr().err == "", "no bar where nobody looks"
