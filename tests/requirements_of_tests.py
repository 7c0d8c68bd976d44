"""What a test needs from the machine: skipped with a hint where it is missing, failed where all must run."""

from __future__ import annotations

import os

import pytest

REQUIRE_ALL = "HORARIUM_TEST_REQUIRE_ALL"
DEBIAN_PACKAGES = {
    "chromium": "chromium",
    "libfaketime": "libfaketime",
    "lua": "lua5.4",
    "node": "nodejs",
    "pg_dump": "postgresql-client",
    "pgbouncer": "pgbouncer",
    "prlimit": "util-linux",
    "ps": "procps",
    "postgres 15": "postgresql-15",
    "psql": "postgresql-client",
    "python for other users": "python3",
    "rabbitmq-server": "rabbitmq-server",
    "redis-server": "redis-server",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}


def require(part: str, present: bool, remedy: str = "") -> None:
    """Skip the test unless `part` is `present`; fail instead where `HORARIUM_TEST_REQUIRE_ALL=1` is set."""
    if present:
        return
    message = f"{part} is missing here: {remedy or f'apt-get install {DEBIAN_PACKAGES.get(part, part)}'}"
    if os.environ.get(REQUIRE_ALL) == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
