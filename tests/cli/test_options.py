from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from horarium.cli import options


@click.group()
@options.connection()
def root() -> None:
    """A stand-in for the whole."""


@root.command()
@options.output()
@options.pass_invocation
def show(invocation: options.Invocation) -> None:
    """Say what was understood."""
    click.echo(f"{invocation.url} {invocation.output} {invocation.quiet} {invocation.profile}")


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(root, arguments)
    assert result.exit_code == 0, result.output
    return result.output.strip()


def test_shared_options_may_stand_before_or_after_the_command() -> None:
    assert shown("show") == "None table False None"
    assert shown("--url", "http://a", "show", "-o", "json") == "http://a json False None"
    assert shown("show", "--url", "http://a", "-q", "--profile", "p") == "http://a table True p"
    assert shown("--url", "http://a", "show", "--url", "http://b") == "http://b table False None"


def test_durations_and_json_are_checked_where_they_are_given(tmp_path: Path) -> None:
    assert options.duration("1h30m") == timedelta(minutes=90)
    with pytest.raises(click.BadParameter, match="write 15s"):
        options.duration("15")
    assert options.json_text('{"n": 1.10}') == '{"n": 1.10}'
    with pytest.raises(click.BadParameter, match="not valid JSON"):
        options.json_text("{n: 1}")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(click.UsageError, match="cannot be read"):
        options.json_text(f"@{tmp_path / 'latin'}")
