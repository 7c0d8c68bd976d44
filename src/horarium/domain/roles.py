"""Who may do what: five roles and the rights each has.

    viewer     reads
    worker     works runs (`/v1/worker`), enqueues one-offs, declares the jobs of its own code; reads nothing
    operator   viewer, and pause, resume, run now, cancel, re-run, dead letters
    editor     operator, and definitions of jobs
    admin      editor and worker, and API keys and the audit

A key has one role in one tenant. The rights of a route stand beside the route (`api.auth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

# Jobs declared by a worker's own code carry this prefix in `managed_by`; a worker's key may put no others.
DECLARED_BY_SDK = "sdk:"


class Role(StrEnum):
    """What a key is for."""

    VIEWER = "viewer"
    WORKER = "worker"
    OPERATOR = "operator"
    EDITOR = "editor"
    ADMIN = "admin"


class Right(StrEnum):
    """One kind of thing that can be done."""

    READ = "read"
    WORK = "work"
    ENQUEUE = "enqueue"
    DECLARE = "declare"
    OPERATE = "operate"
    EDIT = "edit"
    ADMINISTER = "administer"


_OPERATOR = frozenset({Right.READ, Right.OPERATE})
_EDITOR = _OPERATOR | {Right.EDIT, Right.ENQUEUE, Right.DECLARE}

RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.READ}),
    Role.WORKER: frozenset({Right.WORK, Right.ENQUEUE, Right.DECLARE}),
    Role.OPERATOR: _OPERATOR,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: frozenset(Right),
}


def allows(role: str, right: Right) -> bool:
    """Whether a role holds a right; an unknown role holds none."""
    try:
        return right in RIGHTS[Role(role)]
    except ValueError:
        return False


def with_right(right: Right) -> tuple[Role, ...]:
    """The roles that hold a right, weakest first."""
    return tuple(role for role, rights in RIGHTS.items() if right in rights)
