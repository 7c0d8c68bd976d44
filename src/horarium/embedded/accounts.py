"""Which operating-system account PostgreSQL runs as.

PostgreSQL refuses to run as root (it executes what a superuser of the database asks for). A launcher that runs as root
therefore gives it another account; a launcher that is an ordinary user keeps its own.
"""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from horarium import errors

# `postgres` first: `nobody` is shared with other daemons, which could then read the data.
USUAL_ACCOUNTS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account of the operating system."""

    name: str
    uid: int
    gid: int


def for_cluster(pgdata: Path, run_as: str | None = None) -> Account | None:
    """Return the account to change to, or None to stay who we are.

    Existing data belong to the account that made them, so their owner wins over `run_as`.
    """
    if os.geteuid() != 0:
        return None
    return owner_of(pgdata) or unprivileged(run_as)


def owner_of(path: Path) -> Account | None:
    """Return the owner of `path`, or None where it does not exist or belongs to root."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if status.st_uid == 0:
        return None
    return Account(_name_of(status.st_uid), status.st_uid, status.st_gid)


def unprivileged(run_as: str | None = None) -> Account:
    """Return the account called `run_as`, or else the first of the usual ones that exists."""
    names = (run_as,) if run_as else USUAL_ACCOUNTS
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise errors.EmbeddedPostgresError(
        f"PostgreSQL does not run as root, and there is no other account called {' or '.join(names)}: "
        "start as an ordinary user, or create one (useradd --system postgres)"
    )


def may_execute(path: Path, account: Account) -> bool:
    """Say whether the permission bits let `account` run the file `path`, from the root directory down.

    Access control lists are not read: where they deny more, the program fails to start and says so.
    """
    try:
        return all(_execute_bit(step, account) for step in (path, *path.parents))
    except FileNotFoundError:
        return False


def _execute_bit(path: Path, account: Account) -> bool:
    status = path.stat()
    if status.st_uid == account.uid:
        bit = stat.S_IXUSR
    elif status.st_gid == account.gid:
        bit = stat.S_IXGRP
    else:
        bit = stat.S_IXOTH
    return bool(status.st_mode & bit)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
