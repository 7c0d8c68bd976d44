"""From the text of a named statement to what answers it. A statement that the model does not know is an error, never silence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.simulation.model.rows import Fields
from tests.simulation.model.server import Transaction

Answer = list[Fields] | int
"""Rows, or how many were written."""
Statement = Callable[..., Awaitable[Answer]]

_KNOWN: dict[str, Statement] = {}


def answers(text: str) -> Callable[[Statement], Statement]:
    """The decorated function answers the statement of this text."""

    def note(statement: Statement) -> Statement:
        _KNOWN[text] = statement
        return statement

    return note


async def answer(transaction: Transaction, text: str, values: tuple[Any, ...]) -> Answer:
    """Carry out a statement inside a transaction."""
    statement = _KNOWN.get(text)
    if statement is None:
        raise NotImplementedError(f"the model does not know the statement {text.splitlines()[0]!r}")
    return await statement(transaction, *values)


def known() -> frozenset[str]:
    """The texts of all statements that the model answers."""
    return frozenset(_KNOWN)
