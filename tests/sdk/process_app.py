"""An application whose handlers run in child processes; loaded by the tests and by the children themselves."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from horarium import Context, Discard, Horarium, Retry, Snooze

h = Horarium()


@h.job("process.who", process=True)
def who(ctx: Context, name: str) -> dict[str, Any]:
    ctx.progress(0.5, "half")
    ctx.log("hello", name=name)
    return {"pid": os.getpid(), "run": ctx.run_id, "name": name}


@h.job("process.async", process=True)
async def in_own_loop(ctx: Context) -> int:
    await asyncio.sleep(0)
    await ctx.progress(1)
    return os.getpid()


@h.job("process.raise", process=True)
def raising(ctx: Context, what: str) -> None:
    match what:
        case "retry":
            raise Retry("later", in_="5m")
        case "snooze":
            raise Snooze("1h")
        case "discard":
            raise Discard("never")
        case "exit":
            sys.exit(3)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "os_exit":
            os._exit(7)
    raise ValueError(what)


@h.job("process.odd", process=True)
def odd(ctx: Context) -> object:
    return object()


@h.job("process.wait", process=True)
def waiting(ctx: Context, note: str) -> None:
    """Waits; says in a file when it begins and when it is told to stop."""
    Path(note).write_text("began")
    try:
        ctx.log("waiting")
        ctx.wait_cancelled()
    finally:
        Path(note).write_text(f"stopped {ctx.cancelled}")


@h.job("process.deaf", process=True)
def deaf(ctx: Context, note: str) -> None:
    """Does not stop when told to, and has a child of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    family = f"{os.getpid()} {grandchild.pid}\n"
    Path(note).write_text(family)
    sys.stdout.write(family)
    sys.stdout.flush()
    ctx.log("deaf now")
    while True:
        time.sleep(3600)
