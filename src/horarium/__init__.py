"""Horarium, a distributed job scheduler: the public names of its Python SDK.

    from horarium import Horarium, Retry

    h = Horarium()

    @h.job("email.welcome", queue="emails", retry=Retry(5, base="10s"), timeout="2m")
    async def welcome(ctx, user_id: int): ...

A name is imported when it is first used, so that `import horarium` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horarium.errors import HorariumError as HorariumError
    from horarium.errors import LeaseLostError as LeaseLostError
    from horarium.sdk.client import Horarium as Horarium
    from horarium.sdk.context import Context as Context
    from horarium.sdk.handlers import Enqueued as Enqueued
    from horarium.sdk.handlers import Handler as Handler
    from horarium.sdk.signals import Discard as Discard
    from horarium.sdk.signals import Retry as Retry
    from horarium.sdk.signals import Snooze as Snooze

__version__ = "0.1.0"

_HOMES = {
    "Context": "horarium.sdk.context",
    "Discard": "horarium.sdk.signals",
    "Enqueued": "horarium.sdk.handlers",
    "Handler": "horarium.sdk.handlers",
    "Horarium": "horarium.sdk.client",
    "HorariumError": "horarium.errors",
    "LeaseLostError": "horarium.errors",
    "Retry": "horarium.sdk.signals",
    "Snooze": "horarium.sdk.signals",
}

__all__ = [
    "Context",
    "Discard",
    "Enqueued",
    "Handler",
    "Horarium",
    "HorariumError",
    "LeaseLostError",
    "Retry",
    "Snooze",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'horarium' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
