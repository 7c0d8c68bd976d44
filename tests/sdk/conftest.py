"""Fixtures of the SDK's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.sdk import peer as peers


@pytest.fixture
async def peer() -> AsyncIterator[peers.Peer]:
    """A scripted server."""
    async with peers.serving(peers.Peer()) as running:
        yield running
