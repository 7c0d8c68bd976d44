"""The schema that the migrations make, as text that can be compared and read.

    python -m tests.rules.schema_dump --write     writes src/horarium/store/sql/schema.sql anew
    python -m tests.rules.schema_dump             prints it

It is what `pg_dump` of the embedded PostgreSQL says, without its version lines and session settings, and without the
partitions that stand for dates.
"""

from __future__ import annotations

import re
import subprocess
import sys

from horarium.embedded import binaries
from tests import databases
from tests.rules import tree

COMMITTED = tree.SQL / "schema.sql"
HEAD = """\
-- The schema after all migrations, for people who read it and for the test that compares it. Nothing runs this file.
-- Written by: python -m tests.rules.schema_dump --write

"""
DATED_PARTITIONS = ("history_[0-9]*", "run_logs_[0-9]*", "audit_[0-9]*")

_NOISE = re.compile(r"^(SET |SELECT pg_catalog\.set_config|\\(un)?restrict |-- Dumped |-- PostgreSQL database dump)")
_TITLE = re.compile(r"^-- Name: (?P<name>.*?); Type: (?P<type>.*?); Schema: .*$")


def dump(database_url: str) -> str:
    """The schema of a migrated database."""
    program = binaries.find().program("pg_dump")
    arguments = ["--schema-only", "--schema=horarium", "--no-owner", "--no-privileges", "--restrict-key=none"]
    arguments += [f"--exclude-table=horarium.{pattern}" for pattern in DATED_PARTITIONS]
    completed = subprocess.run([program, *arguments, database_url], capture_output=True, text=True, check=True)
    return HEAD + _tidy(completed.stdout)


def _tidy(text: str) -> str:
    """Statements alone, each kind and name once above it."""
    lines = [line for line in text.splitlines() if line != "--" and not _NOISE.match(line)]
    titled = "\n".join(_TITLE.sub(lambda title: f"-- {title['type'].lower()} {title['name']}", line) for line in lines)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m)^(-- .*)\n\n", r"\1\n", titled)).strip() + "\n"


def main() -> None:
    """Print or write the schema, made by a cluster of our own."""
    with databases.Owner() as owner:
        text = dump(databases.Session(owner.directory).create_database())
    if "--write" in sys.argv[1:]:
        COMMITTED.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
