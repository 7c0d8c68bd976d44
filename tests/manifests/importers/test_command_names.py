from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium.manifests.importers.command_names import name_all, name_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/lib/app/backup.sh --all", "backup"),
        ("[ -x /usr/sbin/watch ] && /usr/sbin/watch -q", "watch"),
        ("test -x /usr/sbin/watch || exit 0; nice -n10 /usr/sbin/watch", "watch"),
        ("if [ -x /a/check ] && [ $(date +%d) -le 7 ]; then /a/check --cron; fi", "check"),
        ("cd /srv/app && python3 manage.py clearsessions", "manage"),
        ("/usr/bin/env -i FOO=bar /opt/tool sync", "tool-sync"),
        ("command -v sa > /dev/null && sa 1 1", "sa"),
        ("perl -e 'sleep int(rand(43200))' && renew -q", "renew"),
        ("flock -n /run/lock/x timeout 60 /bin/work", "work"),
        ("A=$({ cat /etc/a || true; } | sed -n 's/(x)/y/p'); find $A -delete", "find"),
        ("php -f /srv/poller.php 2>&1 | tee -a /var/log/x", "poller"),
        ("{ . /etc/default/x; nice -n$LEVEL /usr/sbin/tigercron; }", "tigercron"),
        ("mailman notify", "mailman-notify"),
        ("sudo -u deploy /usr/bin/rsync -a a b", "rsync"),
        ("./Weird Name.SH", "weird"),
        ("/bin/true", "true"),
        ("cd /srv; echo 'unbalanced", "cd"),
        (":", "command"),
        ("", "command"),
    ],
)
def test_the_name_is_what_the_entry_is_there_for(command: str, name: str) -> None:
    assert name_of(command) == name


def test_equal_names_are_told_apart_by_their_commands_not_by_their_place() -> None:
    first, second, third = ("sa 1 1", "0"), ("sa 60 2", "1"), ("sa -A", "2")
    names = name_all([first, second, third])
    assert names[0] == "sa"
    assert len(set(names)) == 3
    assert name_all([first, third])[1] == names[2]


def test_the_same_command_at_two_times_has_two_names() -> None:
    names = name_all([("a", "0 1 * * *"), ("a", "0 2 * * *"), ("a", "0 3 * * *"), ("a", "0 3 * * *")])
    assert len(set(names)) == 4


@given(st.lists(st.tuples(st.text(max_size=60), st.sampled_from(["x", "y"])), max_size=8))
def test_names_are_always_different_short_and_repeatable(commands: list[tuple[str, str]]) -> None:
    names = name_all(commands)
    assert len(set(names)) == len(names) == len(commands)
    assert all(0 < len(name) <= 80 and name == name.strip() for name in names)
    assert name_all(commands) == names
