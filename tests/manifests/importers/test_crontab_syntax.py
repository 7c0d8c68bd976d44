from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.manifests.importers.crontab_syntax import Entry, Setting, Unreadable, read, split_input


def entries(text: str, *, system: bool = False) -> list[Entry]:
    return [line for line in read(text, system=system) if isinstance(line, Entry)]


def test_fields_and_command_may_be_parted_by_blanks_and_tabs() -> None:
    (entry,) = entries("  0\t2 * *\t* \t/usr/bin/backup --all  # not a comment\n")
    assert (entry.schedule, entry.command) == ("0 2 * * *", "/usr/bin/backup --all  # not a comment")
    assert entry.user is None


def test_the_systems_crontabs_name_a_user() -> None:
    (entry,) = entries("0 4\t* * *\twww-data\ttest -x /a && /a b\n", system=True)
    assert (entry.user, entry.command) == ("www-data", "test -x /a && /a b")
    (macro,) = entries("@daily root /a", system=True)
    assert (macro.schedule, macro.user, macro.command) == ("@daily", "root", "/a")


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("PATH=/usr/bin:/bin", "PATH", "/usr/bin:/bin"),
        ("A = b c  ", "A", "b c"),
        ('A="  b c "', "A", "  b c "),
        ("A='\"'", "A", '"'),
        ("'A B'=c", "A B", "c"),
        ("MAILTO=", "MAILTO", ""),
        ('MAILTO=""', "MAILTO", ""),
        ("A=b=c", "A", "b=c"),
        ("A=$HOME/bin # kept", "A", "$HOME/bin # kept"),
    ],
)
def test_settings(line: str, name: str, value: str) -> None:
    assert list(read(line, system=False)) == [Setting(1, name, value)]


def test_an_assignment_in_a_command_is_no_setting() -> None:
    assert entries("* * * * * A=b run")[0].command == "A=b run"
    assert entries("@daily A=b run")[0].command == "A=b run"


@pytest.mark.parametrize(
    ("line", "system", "reason"),
    [
        ("0 2 * * /a", False, "five fields"),
        ("hello", False, "five fields"),
        ("@daily", False, "five fields"),
        ("@daily root", True, "no command"),
        ("0 2 * * * root", True, "no command"),
        ("0 2 * * * run\x07", False, "control characters"),
        ("0 2 * * * \udce4", False, "not UTF-8"),
    ],
)
def test_what_cron_would_not_read(line: str, system: bool, reason: str) -> None:
    (found,) = read("\n" + line, system=system)
    assert isinstance(found, Unreadable)
    assert found.line == 2
    assert reason in found.reason


def test_the_comment_right_above_is_the_remark() -> None:
    text = """\
# A heading of the file.

# m h dom mon dow command
# Rebuild the index
# every night.
0 2 * * * a
1 2 * * * b
# not b
#2 2 * * * switched-off
3 2 * * * c
"""
    assert [entry.remark for entry in entries(text)] == ["Rebuild the index every night.", "", ""]


def test_a_dash_before_the_fields_means_do_not_log() -> None:
    (entry,) = entries("-*/5 * * * * a")
    assert entry.silent
    assert entry.schedule == "*/5 * * * *"


def test_line_ends_of_windows_are_read() -> None:
    assert entries("0 2 * * * a\r\n")[0].command == "a"


@pytest.mark.parametrize(
    ("command", "shell", "stdin"),
    [
        ("a b", "a b", None),
        (r"date +\%d", "date +%d", None),
        ("mail root%Hello%you", "mail root", "Hello\nyou\n"),
        (r"mail root%100\% sure", "mail root", "100% sure\n"),
        ("cat%", "cat", ""),
        ("cat%a%", "cat", "a\n"),
        (r"printf \\%x", r"printf \\", "x\n"),
        (r"a \n b", r"a \n b", None),
        ("a\\", "a\\", None),
    ],
)
def test_percent_parts_the_command_from_its_input(command: str, shell: str, stdin: str | None) -> None:
    assert split_input(command) == (shell, stdin)


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=200), st.booleans())
def test_any_text_is_read_line_by_line(text: str, system: bool) -> None:
    lines = text.split("\n")
    for found in read(text, system=system):
        assert lines[found.line - 1].strip(" \t")
