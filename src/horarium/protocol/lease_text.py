"""A lease as the JSON text that a worker reads, put together from a row: target and payload are passed on byte by byte.

A run is claimed some ten thousand times a second, so no message object is made here; `messages.Lease` reads what is written.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from uuid import UUID

import msgspec

_encode = msgspec.json.Encoder().encode


def lease_text(
    run_id: UUID,
    job_id: UUID,
    token: int,
    attempt: int,
    timeout_s: int,
    scheduled_for: datetime,
    trigger: str,
    job_name: str | None,
    target: str,
    payload: str,
    lease_s: str,
    start_in_s: float,
) -> str:
    """One lease (`messages.Lease`); `lease_s` is a number's text, `start_in_s` is left out when it is not positive."""
    early = f',"start_in_s":{start_in_s:.6f}' if start_in_s > 0 else ""
    return (
        f'{{"run_id":"{run_id}","job_id":"{job_id}","job_name":{name_text(job_name)},"attempt":{attempt}'
        f',"fencing_token":{token},"trigger":"{trigger}","scheduled_for":"{instant_text(scheduled_for)}"'
        f',"timeout_s":{timeout_s},"lease_s":{lease_s}{early},"target":{target},"payload":{payload}}}'
    )


def name_text(name: str | None) -> str:
    """A job's name as JSON."""
    return "null" if name is None else _encode(name).decode()


@lru_cache(maxsize=4096)
def instant_text(instant: datetime) -> str:
    """An aware UTC instant as RFC 3339 text: most runs of a moment share theirs."""
    return instant.isoformat().replace("+00:00", "Z")
