"""Legal messages of the worker protocol, each member settable."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from horarium.protocol import messages
from horarium.testing import clock

_numbers = itertools.count(1)


def lease(
    handler: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    run_id: str | None = None,
    job_name: str | None = None,
    attempt: int = 1,
    scheduled_for: datetime = clock.START,
    timeout_s: float = 300.0,
    trigger: str = "schedule",
) -> messages.Lease:
    """A lease as a server gives it: the first attempt of a fresh run unless told otherwise. Tokens rise."""
    number = next(_numbers)
    return messages.Lease(
        run_id=run_id or f"00000000-0000-8000-8000-{number:012x}",
        job_id="00000000-0000-7000-8000-000000000000",
        attempt=attempt,
        fencing_token=number,
        target=msgspec.Raw(msgspec.json.encode({"handler": handler})),
        payload=msgspec.Raw(msgspec.json.encode(dict(arguments or {}))),
        scheduled_for=scheduled_for.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        timeout_s=timeout_s,
        lease_s=15.0,
        job_name=job_name,
        trigger=trigger,
    )
