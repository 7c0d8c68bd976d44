"""The servers of one address: which of them takes writes, how it is found, and how it is let go.

An address may name several hosts: a primary and its standbys. The one that served last is asked first. When it has not
answered within a quarter of a second, or refuses, the next one is asked beside it, and the first that is fit wins: a
machine that is gone, which answers nothing at all, costs that quarter of a second and no time limit.

All pools of an address share its `Servers`. When a connection is made to another host than before, the connections to the
former one are broken: after a promotion nobody waits for a dead primary, and nobody reads from one that came back.
"""

from __future__ import annotations

import asyncio
import random
import socket
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from horarium import errors, postgres_url
from horarium.postgres_url import Host

NEXT_HOST_AFTER_S = 0.25
SILENT_FOR_S = 5
"""How long a connection may be without any sign of life of the other machine."""

Dial = Callable[[Host | None], Coroutine[Any, Any, asyncpg.Connection]]

REFUSED = (
    asyncpg.PostgresError,  # wrong password, no such database, starting up, too many connections
    asyncpg.InterfaceError,  # among them: not the kind of server that is wanted
    asyncpg.InternalClientError,
    OSError,  # refused, unreachable, no such host, TLS; TimeoutError is one
)


class Outage:
    """After a refusal nobody tries again for a moment: up to a quarter of a second, growing, jittered.

    A server that is starting is not asked a thousand times a second, and who wants something is refused at once.
    """

    SHORTEST_S = 0.02
    LONGEST_S = 0.25

    def __init__(self) -> None:
        self._failures = 0
        self._until = 0.0
        self._reason = ""

    def check(self, now: float) -> None:
        """UnavailableError with the reason of the last refusal, while nobody is to try."""
        if now < self._until:
            raise errors.UnavailableError(self._reason)

    def refused(self, reason: str, now: float) -> None:
        """Another attempt failed."""
        self._failures += 1
        pause = min(self.LONGEST_S, self.SHORTEST_S * 2 ** min(self._failures, 10))
        self._until = now + pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, no secret
        self._reason = reason

    def over(self) -> None:
        """An attempt succeeded."""
        self._failures, self._until = 0, 0.0


class Servers:
    """Connects to the server of an address that is wanted. ConfigurationError when the address is malformed."""

    def __init__(self, url: str) -> None:
        try:
            self._address = postgres_url.parse(url)
        except ValueError as error:
            raise errors.ConfigurationError(f"the address of the database {error}") from None
        self._url = url
        self._present: Host | None = None
        self._open: weakref.WeakKeyDictionary[asyncpg.Connection, Host | None] = weakref.WeakKeyDictionary()
        self._outage = Outage()

    async def connect(self, *_: object, timeout: float, **options: Any) -> asyncpg.Connection:
        """A connection to the server that is wanted, within `timeout` seconds. UnavailableError says why there is none."""
        self._outage.check(asyncio.get_running_loop().time())

        def dial(host: Host | None) -> Coroutine[Any, Any, asyncpg.Connection]:
            place = {"host": host.name, "port": host.port} if host and len(self._address.hosts) > 1 else {}
            wanted = {"target_session_attrs": self._address.wanted, "timeout": timeout}
            made: Coroutine[Any, Any, asyncpg.Connection] = asyncpg.connect(self._url, **wanted, **place, **options)
            return made

        try:
            async with asyncio.timeout(timeout):
                host, connection = await first_to_answer(self._in_order(), dial)
        except REFUSED as error:
            reason = told(error, timeout)
            self._outage.refused(reason, asyncio.get_running_loop().time())
            raise errors.UnavailableError(reason) from error
        self._outage.over()
        self._arrived(host, connection)
        return connection

    def leave(self) -> None:
        """The present server takes no writes any more: break the connections to it, and look for another one."""
        if len(self._address.hosts) > 1:
            self._break(lambda host: host == self._present)
            self._present = None

    def _in_order(self) -> list[Host | None]:
        hosts = self._address.hosts
        return [*sorted(hosts, key=lambda host: host != self._present)] or [None]

    def _arrived(self, host: Host | None, connection: asyncpg.Connection) -> None:
        listen_for_life(connection)
        self._present = host
        self._break(lambda other: other != host)
        self._open[connection] = host

    def _break(self, is_meant: Callable[[Host | None], bool]) -> None:
        for connection, host in list(self._open.items()):
            if is_meant(host):
                connection.terminate()


async def first_to_answer(hosts: Sequence[Host | None], dial: Dial) -> tuple[Host | None, asyncpg.Connection]:
    """Ask the hosts one after the other, without waiting long for a silent one; the first fit answer counts.

    When none is fit: raises the error of the only host, or UnavailableError with what each of them said.
    """
    waiting, asked = list(hosts), dict[asyncio.Task[asyncpg.Connection], Host | None]()
    faults: dict[Host | None, BaseException] = {}
    try:
        while waiting or asked:
            if waiting:
                host = waiting.pop(0)
                asked[asyncio.create_task(dial(host))] = host
            done, _ = await asyncio.wait(
                asked, timeout=NEXT_HOST_AFTER_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    return asked.pop(task), task.result()
                faults[asked.pop(task)] = error
    finally:
        await _give_up(list(asked))
    raise _none_is_fit(faults)


async def _give_up(attempts: Sequence[asyncio.Task[asyncpg.Connection]]) -> None:
    """End attempts that nobody needs; one that succeeded at the last moment leaves no connection."""
    for attempt in attempts:
        attempt.cancel()
    for answer in await asyncio.gather(*attempts, return_exceptions=True):
        if isinstance(answer, asyncpg.Connection):
            answer.terminate()


def _none_is_fit(faults: dict[Host | None, BaseException]) -> BaseException:
    if len(faults) == 1:
        return next(iter(faults.values()))
    return ConnectionError("; ".join(f"{host}: {str(error) or type(error).__name__}" for host, error in faults.items()))


def told(error: BaseException, seconds: float) -> str:
    """Why there is no connection, in one line for people."""
    if isinstance(error, TimeoutError) and not str(error):
        return f"the database cannot be asked: no connection within {seconds:g} s"
    said = f"the database cannot be asked: {type(error).__name__}: {error}"
    if "unsupported startup parameter" in said:
        said += " (is this a pooler? then set HORARIUM_STATEMENT_CACHE=0)"
    return said


def listen_for_life(connection: asyncpg.Connection) -> None:
    """Let the kernel end a connection whose other machine has vanished: no answer would ever come.

    A statement would otherwise wait for its own time limit, and an idle connection for hours (tcp(7)).
    """
    plug = connection._transport.get_extra_info("socket")  # noqa: SLF001 - the driver has no public way to it
    if plug is None or plug.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    wanted = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": SILENT_FOR_S * 1000}
    with suppress(OSError, ValueError):  # closed again already (the loop then has no descriptor): its first use tells
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in wanted.items():
            if hasattr(socket, name):  # some are Linux's only
                plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
