"""Threads for plain handlers."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from horarium.sdk import threads

WHO = contextvars.ContextVar("WHO", default="nobody")


async def test_calls_see_the_callers_context_and_reuse_threads() -> None:
    pool = threads.Threads()
    WHO.set("caller")
    names = {await pool.call(lambda: (WHO.get(), threading.current_thread().name)) for _ in range(5)}
    assert names == {("caller", "horarium-handler-1")}
    pool.close()


async def test_as_many_threads_as_calls_at_once() -> None:
    pool, together = threads.Threads(), threading.Barrier(8)
    await asyncio.gather(*(pool.call(together.wait, 20) for _ in range(8)))
    pool.close()


@pytest.mark.parametrize(
    ("raised", "seen"), [(ValueError, ValueError), (SystemExit, SystemExit), (StopIteration, RuntimeError)]
)
async def test_what_a_call_raises(raised: type[BaseException], seen: type[BaseException]) -> None:
    pool = threads.Threads()

    def call() -> None:
        raise raised

    with pytest.raises(seen):
        await pool.call(call)
    assert await pool.call(lambda: 1) == 1
    pool.close()


def test_a_call_that_never_returns_does_not_keep_the_program_alive() -> None:
    code = (
        "import asyncio, threading\n"
        "from horarium.sdk import threads\n"
        "async def main():\n"
        "    began = threading.Event()\n"
        "    call = asyncio.create_task(threads.Threads().call(lambda: (began.set(), threading.Event().wait())))\n"
        "    await asyncio.to_thread(began.wait)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
