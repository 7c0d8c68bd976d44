"""The database's clock beside the monotonic one that all processes of this machine share."""

from __future__ import annotations

import time
from datetime import datetime

from tests.chaos import world as worlds


async def database_epoch(url: str) -> tuple[datetime, float]:
    """The database's time, and its seconds since 1970 at monotonic zero."""
    async with worlds.rows_of(url) as rows:
        asked = time.monotonic()
        now: datetime = await rows.fetchval("SELECT clock_timestamp()")
    return now, now.timestamp() - (asked + time.monotonic()) / 2
