"""Copies of the binaries for another account: made once, and only trusted when nobody else can have touched them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from horarium import errors
from horarium.embedded import accounts, binaries, binary_cache

SELF = accounts.Account("self", os.geteuid(), os.getegid())
NOBODY = accounts.unprivileged("nobody")


@pytest.fixture
def install() -> Path:
    return binaries.find().install


def test_a_copy_runs_and_is_made_once(install: Path, public_dir: Path) -> None:
    copied = binary_cache.copy(install, "18.6", NOBODY, [public_dir / "cache"])
    made = copied.stat().st_ino
    for program in ("postgres", "initdb", "psql"):
        completed = subprocess.run([copied / "bin" / program, "--version"], capture_output=True, check=True)
        assert b"PostgreSQL" in completed.stdout
    assert binary_cache.copy(install, "18.6", NOBODY, [public_dir / "cache"]).stat().st_ino == made
    assert [entry.name for entry in (public_dir / "cache").iterdir()] == [copied.parent.parent.name]
    assert not (copied / "include").exists()


def test_a_copy_that_was_changed_is_made_anew(install: Path, public_dir: Path) -> None:
    copied = binary_cache.copy(install, "18.6", NOBODY, [public_dir / "cache"])
    original = (copied / "bin" / "initdb").read_bytes()
    (copied / "bin" / "initdb").write_bytes(b"#!/bin/sh\nexit 0\n")
    assert binary_cache.copy(install, "18.6", NOBODY, [public_dir / "cache"]) == copied
    assert (copied / "bin" / "initdb").read_bytes() == original


def test_a_place_that_others_may_write_to_is_passed_over(install: Path, public_dir: Path) -> None:
    planted = public_dir / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    copied = binary_cache.copy(install, "18.6", NOBODY, [planted, public_dir / "own"])
    assert copied.is_relative_to(public_dir / "own")
    assert list(planted.iterdir()) == []


def test_a_link_is_not_followed(install: Path, public_dir: Path) -> None:
    (public_dir / "elsewhere").mkdir()
    (public_dir / "link").symlink_to(public_dir / "elsewhere")
    with pytest.raises(errors.EmbeddedPostgresError, match="does not belong to"):
        binary_cache.copy(install, "18.6", NOBODY, [public_dir / "link"])


def test_a_place_that_the_account_cannot_reach_is_named(install: Path, public_dir: Path) -> None:
    closed = public_dir / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(errors.EmbeddedPostgresError, match="nobody cannot reach it"):
        binary_cache.copy(install, "18.6", NOBODY, [closed / "cache"])
    assert binary_cache.copy(install, "18.6", SELF, [closed / "cache"]).exists()


def test_the_permission_bits_of_every_parent_count(public_dir: Path) -> None:
    program = public_dir / "a" / "program"
    program.parent.mkdir()
    program.touch()
    program.chmod(0o755)
    assert accounts.may_execute(program, NOBODY)
    program.parent.chmod(0o700)
    assert not accounts.may_execute(program, NOBODY)
    assert accounts.may_execute(program, SELF)
    program.parent.chmod(0o755)
    program.chmod(0o644)
    assert not accounts.may_execute(program, NOBODY)
    assert not accounts.may_execute(public_dir / "missing", NOBODY)
