"""Fixtures of the SDK's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sdk import peer as peers
from tests.sdk import rest_server


@pytest.fixture
async def peer() -> AsyncIterator[peers.Peer]:
    """A scripted server."""
    async with peers.serving(peers.Peer()) as running:
        yield running


@pytest.fixture
async def server() -> AsyncIterator[rest_server.RestServer]:
    """A REST server."""
    async with rest_server.serving() as running:
        yield running
