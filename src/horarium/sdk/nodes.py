"""The nodes of the cluster as a worker sees them: which address to use now, and with which key.

Any node serves any worker, so one that does not answer is left for the next in the list. Shared by the event loop and the
heartbeat's thread; each method reads or writes one attribute, so no lock is needed.
"""

from __future__ import annotations

from collections.abc import Callable

from horarium.protocol import version
from horarium.sdk import profile


class Nodes:
    """The addresses, in the order to try them. `connect` is asked again when the key is refused: it may have changed."""

    def __init__(self, connect: Callable[[], profile.Connection]) -> None:
        self._connect = connect
        self._connection = connect()
        self._index = 0

    @property
    def url(self) -> str:
        """The address to use now."""
        urls = self._connection.urls
        return urls[self._index % len(urls)]

    @property
    def headers(self) -> dict[str, str]:
        """What each request of a worker carries."""
        key = {"Authorization": f"Bearer {self._connection.api_key}"} if self._connection.api_key else {}
        return {"Content-Type": "application/json", version.HEADER: str(version.PROTOCOL_VERSION), **key}

    def leave(self, url: str) -> None:
        """Use the next address from now on, unless somebody has left this one already."""
        if url == self.url:
            self._index += 1

    def refresh(self) -> None:
        """Read addresses and key anew."""
        self._connection = self._connect()
