"""The address of a PostgreSQL database, read without connecting: its hosts, and what is wrong with it.

    postgresql://user:password@host1:5432,host2:5433/database?sslmode=verify-full&target_session_attrs=read-write

The form is libpq's (PostgreSQL's manual, 34.1.1.2). The hosts are servers of one and the same database: a primary and its
standbys. No message holds any part of the address, for it holds a password.
"""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass

SCHEMES = frozenset({"postgres", "postgresql"})
READ_WRITE = "read-write"
# Horarium writes: an address that asks for a standby is a mistake.
TARGETS = frozenset({"any", READ_WRITE, "primary"})
SSL_MODES = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
# libpq's own affairs: the driver would send them to the server as settings, which refuses them.
_UNKNOWN_TO_DRIVER = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "fallback_application_name",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "replication",
        "requirepeer",
        "tcp_user_timeout",
    }
)
_ENCODE = "special characters in a user or a password are percent-encoded, such as %40 for @"


@dataclass(frozen=True, slots=True)
class Host:
    """One server: a name, an IP address or the directory of a Unix socket. `port` None: the usual one."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """What an address says about servers. No hosts: the driver's default. `target` None: nothing is said."""

    hosts: tuple[Host, ...]
    target: str | None

    @property
    def wanted(self) -> str | None:
        """Which of the servers is wanted: of several, the one that takes writes, unless something else is said."""
        return self.target or (READ_WRITE if len(self.hosts) > 1 else None)


def parse(url: str) -> Address:
    """Read an address; ValueError says in one sentence what is wrong with it."""
    parts = _split(url)
    if parts.scheme not in SCHEMES:
        raise ValueError("must begin with postgresql://")
    query = _query(parts.query)
    _check_choice(query, "target_session_attrs", TARGETS)
    _check_choice(query, "sslmode", SSL_MODES)
    unknown = sorted(_UNKNOWN_TO_DRIVER & set(query))
    if unknown:
        raise ValueError(f"{', '.join(unknown)} can be set in libpq only: leave it out")
    return Address(_hosts(parts.netloc, query), query.get("target_session_attrs"))


def _split(url: str) -> urllib.parse.SplitResult:
    try:
        return urllib.parse.urlsplit(url)
    except ValueError:  # a bracket without its other half
        raise ValueError(f"is not a URL: an IPv6 address stands in brackets, and {_ENCODE}") from None


def _query(text: str) -> dict[str, str]:
    try:
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)))
    except ValueError:
        raise ValueError("what follows the ? must be like name=value&name=value") from None


def _check_choice(query: dict[str, str], name: str, choices: frozenset[str]) -> None:
    if name in query and query[name] not in choices:
        raise ValueError(f"{name} must be one of {', '.join(sorted(choices))}")


def _hosts(netloc: str, query: dict[str, str]) -> tuple[Host, ...]:
    listed = netloc.partition("@")[2] if "@" in netloc else netloc
    if "@" in listed:
        raise ValueError(f"has more than one @: {_ENCODE}")
    if listed:
        return tuple(_host(each) for each in listed.split(","))
    names = [name for name in query.get("host", "").split(",") if name]
    ports = [_port(port) for port in query.get("port", "").split(",") if port]
    if len(ports) not in {0, 1, len(names)}:
        raise ValueError("must name one port for all hosts, or one for each")
    if not ports:
        return tuple(_host(name) for name in names)
    return tuple(Host(name, port) for name, port in zip(names, ports * len(names), strict=False))


def _host(text: str) -> Host:
    if text.startswith("/"):
        return Host(text)
    name, bracket, rest = text.partition("]") if text.startswith("[") else ("", "", text)
    if bracket:
        name, port = name[1:], rest.removeprefix(":")
    else:
        name, _, port = rest.partition(":")
    if not name:
        raise ValueError("has a host without a name")
    return Host(urllib.parse.unquote(name), _port(port) if port else None)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 65536):
        raise ValueError(f"has a port that is no number from 1 to 65535; {_ENCODE}")
    return int(text)
