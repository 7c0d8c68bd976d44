"""Handlers that benchmarks run."""

from __future__ import annotations

from typing import Any

from horarium import Horarium

h = Horarium(app="benchmarks")


@h.job("noop")
async def noop(ctx: Any, a: int = 0, b: str = "") -> None:
    """Nothing at all."""
