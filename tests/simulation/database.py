"""The real `Database` over connections to the model: the seam at which the store can fail before and after each commit.

A statement is carried out on the server's side, by a task of nobody's: when whoever asked is frozen, killed or cancelled
meanwhile, it is carried out all the same. What a session had begun and not committed is rolled back once the server notices
that the other end is gone: at once, or seconds later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context
from typing import Any

import asyncpg

from horarium.store.database import Database, translated
from tests.simulation.chance import Chance
from tests.simulation.loop import PROCESS
from tests.simulation.model import answers, of_jobs, of_runs, of_shards, of_the_rest, of_timers
from tests.simulation.model.rows import Row
from tests.simulation.model.server import Server, Transaction
from tests.simulation.weather import Weather

__all__ = ["Host", "SimulatedDatabase"]

STATEMENTS = (of_jobs, of_runs, of_shards, of_the_rest, of_timers)
_NOBODY = Context()


class Host:
    """The machine that the server runs on: whether it can be reached, and whether it answers."""

    def __init__(self, server: Server, chance: Chance, weather: Weather) -> None:
        self.server = server
        self.chance = chance
        self.weather = weather
        self.is_up = True
        self.sessions: dict[Session, None] = {}
        self._answering = asyncio.Event()
        self._answering.set()

    def crash(self) -> None:
        """Kill the server: every session ends, what was committed stays."""
        self.is_up = False
        for session in list(self.sessions):
            session.is_killed = True
            session.cut(0.0)
        for transaction in list(self.server.open):
            self.server.roll_back(transaction)

    def restart(self) -> None:
        self.is_up = True

    def stall(self) -> None:
        """Answer nothing, and refuse nothing either."""
        self._answering.clear()

    def go_on(self) -> None:
        self._answering.set()

    async def answers(self) -> None:
        """Wait while the server answers nothing."""
        await self._answering.wait()


class Session:
    """The server's end of one connection."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.transaction: Transaction | None = None
        self.is_cut = False
        self.is_killed = False
        self._is_noticed = False
        self.owner = PROCESS.get()
        self._pending: asyncio.Future[Any] | None = None
        self._is_busy = False
        host.sessions[self] = None

    async def ask(self, work: Any) -> Any:
        """Let the server do something; its answer, or the error of a lost connection."""
        if self.is_cut:
            raise asyncpg.InterfaceError("connection is closed")
        loop = asyncio.get_running_loop()
        pending = self._pending = loop.create_future()
        self._serving = loop.create_task(self._serve(work, pending), context=_NOBODY)
        try:
            return await pending
        except asyncio.CancelledError:
            self.cut(self.host.chance.short())  # the driver's cancel request and the end of the statement are a race
            raise
        finally:
            self._pending = None

    def cut(self, noticed_after_s: float) -> None:
        """The connection is gone. The client sees it now, the server a while later."""
        if self.is_cut:
            return
        self.is_cut = True
        if self._pending is not None and not self._pending.done():
            self._pending.set_exception(asyncpg.ConnectionDoesNotExistError("connection was closed in the middle"))
        asyncio.get_running_loop().call_later(noticed_after_s, self._notice, context=_NOBODY)

    def _notice(self) -> None:
        """The server has noticed that nobody is there. A statement is carried out to its end first."""
        self._is_noticed = True
        if not self._is_busy:
            self._end()

    def _end(self) -> None:
        self.host.sessions.pop(self, None)
        if self.transaction is not None:
            self.host.server.roll_back(self.transaction)
            self.transaction = None

    async def _serve(self, work: Any, pending: asyncio.Future[Any]) -> None:
        host, weather, chance = self.host, self.host.weather, self.host.chance
        self._is_busy = True
        try:
            await asyncio.sleep(chance.short())
            await host.answers()
            if chance.happens(weather.lost_before):
                self._lose(pending)
                return
            if self.is_killed or (self.is_cut and chance.happens(0.5)):
                return
            answer = await work()
            if chance.happens(weather.lost_after):
                self._lose(pending)
                return
            slow = chance.between(0.1, 2.0) if chance.happens(weather.slow) else chance.short()
            await asyncio.sleep(slow)
            await host.answers()
            if not pending.done():
                pending.set_result(answer)
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            if not pending.done():
                pending.set_exception(error)
        finally:
            self._is_busy = False
            if self._is_noticed:
                self._end()

    def _lose(self, pending: asyncio.Future[Any]) -> None:
        """The connection breaks now; the server may notice only seconds later, and hold its locks until then."""
        half_open = self.host.chance.happens(0.3)
        self.cut(self.host.chance.between(0.5, 4.0) if half_open else 0.0)
        if not pending.done():
            pending.set_exception(asyncpg.ConnectionDoesNotExistError("connection was closed in the middle"))

    # What a client may ask for.

    async def run(self, text: str, values: tuple[Any, ...]) -> Any:
        """One statement; alone it is a transaction of its own."""

        async def work() -> Any:
            return await self._within(lambda tx: answers.answer(tx, text, values))

        return await self.ask(work)

    async def copy(self, table: str, records: Sequence[Any], columns: Sequence[str]) -> None:
        async def work() -> Any:
            await self._within(lambda tx: of_jobs.copy(tx, table, records, columns))

        await self.ask(work)

    async def _within(self, statement: Any) -> Any:
        server = self.host.server
        if self.transaction is not None:
            return await statement(self.transaction)
        alone = server.begin()
        try:
            answer = await statement(alone)
        except BaseException:
            server.roll_back(alone)
            raise
        server.commit(alone)
        return answer

    async def begin(self) -> None:
        async def work() -> None:
            self.transaction = self.host.server.begin()

        await self.ask(work)

    async def commit(self) -> None:
        chance, weather = self.host.chance, self.host.weather

        async def work() -> None:
            transaction, self.transaction = self.transaction, None
            assert transaction is not None
            if chance.happens(weather.lost_at_commit):
                self.cut(0.0)
                if chance.happens(0.5):
                    self.host.server.roll_back(transaction)
                    return
            self.host.server.commit(transaction)

        await self.ask(work)

    async def roll_back(self) -> None:
        async def work() -> None:
            if self.transaction is not None:
                self.host.server.roll_back(self.transaction)
                self.transaction = None

        await self.ask(work)


class Connection:
    """What the store sees of `asyncpg.Connection`."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def fetch(self, text: str, *values: Any) -> list[Row]:
        return [Row(fields) for fields in await self.session.run(text, values)]

    async def fetchrow(self, text: str, *values: Any) -> Row | None:
        rows = await self.fetch(text, *values)
        return rows[0] if rows else None

    async def fetchval(self, text: str, *values: Any) -> Any:
        row = await self.fetchrow(text, *values)
        return None if row is None else row[0]

    async def execute(self, text: str, *values: Any) -> str:
        answer = await self.session.run(text, values)
        return f"DONE 0 {answer if isinstance(answer, int) else len(answer)}"

    async def copy_records_to_table(self, table: str, *, records: Sequence[Any], columns: Sequence[str]) -> None:
        await self.session.copy(table, records, columns)

    def transaction(self) -> Block:
        return Block(self.session)

    def terminate(self) -> None:
        self.session.cut(0.0)


class Block:
    """What the store sees of `asyncpg.transaction.Transaction`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.start = session.begin
        self.commit = session.commit
        self.rollback = session.roll_back

    async def __aenter__(self) -> None:
        await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.commit()
        elif not self._session.is_cut:
            await self.rollback()


class Pool:
    """What `Database` sees of `asyncpg.Pool`: so many connections at most, made when they are asked for."""

    def __init__(self, host: Host, size: int) -> None:
        self._host = host
        self._room = asyncio.Semaphore(size)
        self._in_use: dict[Connection, None] = {}

    async def acquire(self) -> Connection:
        await self._room.acquire()
        try:
            await asyncio.sleep(self._host.chance.short())
            if not self._host.is_up:
                raise ConnectionRefusedError("nobody listens there")
        except BaseException:
            self._room.release()
            raise
        connection = Connection(Session(self._host))
        self._in_use[connection] = None
        return connection

    async def release(self, connection: Connection) -> None:
        if self._in_use.pop(connection, 0) is None:
            connection.session.cut(0.0)
            self._room.release()

    def terminate(self) -> None:
        for connection in self._in_use:
            connection.session.cut(0.0)

    async def close(self) -> None:
        self.terminate()


class SimulatedDatabase(Database):
    """A pool of connections to the model; everything above the driver is the production code."""

    def __init__(self, host: Host, *, pool_size: int = 6, connect_timeout_s: float = 3) -> None:
        super().__init__("postgresql://simulated/horarium", pool_size=pool_size, connect_timeout_s=connect_timeout_s)
        self._host = host

    def another(self, *, pool_size: int, connect_timeout_s: float) -> SimulatedDatabase:
        return SimulatedDatabase(self._host, pool_size=pool_size, connect_timeout_s=connect_timeout_s)

    async def open(self) -> None:
        with translated():  # as the real one: that nobody listens is told at once
            pool = self._pool = Pool(self._host, self._pool_size)
            await pool.release(await pool.acquire())
