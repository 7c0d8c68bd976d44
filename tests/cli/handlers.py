"""The application whose worker stands beside the node of `tests.cli.node`."""

from __future__ import annotations

from typing import Any

from horarium import Context, Discard, Horarium

h = Horarium(app="cli-tests")


@h.job("greet")
async def greet(ctx: Context, name: str = "you") -> dict[str, Any]:
    ctx.log("saying hello", name=name)
    return {"hello": name}


@h.job("doom")
async def doom(ctx: Context) -> None:
    raise Discard("it was never to be")
