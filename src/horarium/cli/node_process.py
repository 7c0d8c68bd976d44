"""One of the nodes of `horarium serve --processes N`: `python -m horarium.cli.node_process`, configured by its environment.

It says `ready` on standard output when it answers, and stops in order when standard input ends: then its parent is gone.
"""

from __future__ import annotations

import asyncio
import sys

from horarium import config, errors, server
from horarium.cli import main


def run() -> int:
    """Serve until told to stop; returns the exit status."""
    import uvloop

    try:
        uvloop.run(_serve(config.load().settings))
    except errors.HorariumError as error:
        print(f"Error: {main.describe(error)}", file=sys.stderr)
        return main.exit_code(error)
    return 0


async def _serve(settings: config.Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def parent_is_gone() -> None:
        loop.remove_reader(sys.stdin)
        stop.set()

    def announce(info: server.ServerInfo) -> None:
        print("ready", flush=True)

    loop.add_reader(sys.stdin, parent_is_gone)
    await server.serve(settings, ready=announce, stop=stop, shares_port=True)


if __name__ == "__main__":
    sys.exit(run())
