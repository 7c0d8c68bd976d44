"""Addresses of databases: their hosts, and what is wrong with one."""

from __future__ import annotations

import pytest

from horarium import postgres_url
from horarium.postgres_url import Host

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql:///db", ()),
        ("postgresql://h/db", (Host("h"),)),
        ("postgres://u:p@h:5433/db", (Host("h", 5433),)),
        ("postgresql://u:p%40%2F@h1:1,h2,[::1]:3/db", (Host("h1", 1), Host("h2"), Host("::1", 3))),
        ("postgresql://u@/db?host=/run/postgresql", (Host("/run/postgresql"),)),
        ("postgresql://u@/db?host=a,b&port=1,2", (Host("a", 1), Host("b", 2))),
        ("postgresql://u@/db?host=a,b&port=1", (Host("a", 1), Host("b", 1))),
        ("postgresql://u@/db?host=a:7,b", (Host("a", 7), Host("b"))),
        ("postgresql://%2Frun%2Fpg/db", (Host("/run/pg"),)),
    ],
)
def test_hosts(url: str, hosts: tuple[Host, ...]) -> None:
    assert postgres_url.parse(url).hosts == hosts


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://h/db", None),
        ("postgresql://h1,h2/db", "read-write"),
        ("postgresql://h1,h2/db?target_session_attrs=any", "any"),
        ("postgresql://h/db?target_session_attrs=primary", "primary"),
    ],
)
def test_of_several_servers_the_one_that_takes_writes_is_wanted(url: str, wanted: str | None) -> None:
    assert postgres_url.parse(url).wanted == wanted


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        (f"mysql://u:{SECRET}@h/db", "must begin with postgresql://"),
        (f"postgresql://u:a@{SECRET}@h/db", "more than one @"),
        (f"postgresql://u:{SECRET}/more@h/db", "no number from 1 to 65535"),
        (f"postgresql://u:{SECRET}@h:0/db", "no number from 1 to 65535"),
        (f"postgresql://u:{SECRET}@h:99999/db", "no number from 1 to 65535"),
        (f"postgresql://u:{SECRET}@h1,,h2/db", "a host without a name"),
        (f"postgresql://u:{SECRET}@[::1/db", "brackets"),
        (f"postgresql://u:{SECRET}@h/db?sslmode", "name=value"),
        (f"postgresql://u:{SECRET}@h/db?sslmode=yes", "sslmode must be one of allow, disable, prefer"),
        (f"postgresql://u:{SECRET}@h/db?target_session_attrs=standby", "must be one of any, primary, read-write"),
        (
            f"postgresql://u:{SECRET}@h/db?keepalives=1&connect_timeout=3",
            "connect_timeout, keepalives can be set in libpq",
        ),
        (f"postgresql://u:{SECRET}@/db?host=a,b,c&port=1,2", "one port for all hosts, or one for each"),
    ],
)
def test_faults_are_told_without_the_password(url: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        postgres_url.parse(url)
    assert fault in str(raised.value)
    assert SECRET not in str(raised.value)


def test_hosts_are_shown_as_they_are_written() -> None:
    assert [str(host) for host in (Host("h"), Host("h", 1), Host("::1", 2))] == ["h", "h:1", "[::1]:2"]
