"""Roles: the table of rights as the documentation states it."""

from __future__ import annotations

import pytest

from horarium.domain import roles

R = roles.Right
TABLE = {
    "viewer": {R.READ},
    "worker": {R.WORK, R.ENQUEUE, R.DECLARE},
    "operator": {R.READ, R.OPERATE},
    "editor": {R.READ, R.OPERATE, R.EDIT, R.ENQUEUE, R.DECLARE},
    "admin": set(R),
}


@pytest.mark.parametrize("role", TABLE)
@pytest.mark.parametrize("right", list(R))
def test_each_role_holds_exactly_its_rights(role: str, right: roles.Right) -> None:
    assert roles.allows(role, right) == (right in TABLE[role])


def test_an_unknown_role_holds_no_right() -> None:
    assert not any(roles.allows("root", right) for right in R)


def test_the_holders_of_a_right_are_told_weakest_first() -> None:
    assert roles.with_right(R.OPERATE) == (roles.Role.OPERATOR, roles.Role.EDITOR, roles.Role.ADMIN)
