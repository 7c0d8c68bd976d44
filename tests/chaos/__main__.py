"""`python -m tests.chaos`: build an installation, let faults happen to it at random, judge it. Exit 1 if a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from tests.chaos import faults, load, verdict, world

WARM_UP_S = 5.0
HEAL_S = 25.0  # longer than a lease: what a last fault left hanging has been taken back


async def run(given: argparse.Namespace, folder: Path) -> verdict.Verdict:
    """Load, faults, an end of faults, the verdict."""
    size = world.Size(given.databases, given.nodes, given.workers)
    here = world.World(folder, size, random.Random(given.seed))
    try:
        await here.start()
        since, epoch = await verdict.database_epoch(here.database_urls[0])
        under = load.Load(here, given.rate, given.schedules)
        await under.start()
        await asyncio.sleep(WARM_UP_S)
        happened = await go_wrong(here, given)
        await asyncio.sleep(HEAL_S)
        await under.stop()
        return await verdict.judge(here, under, happened, since - timedelta(seconds=1), epoch)
    finally:
        await here.close()


async def go_wrong(here: world.World, given: argparse.Namespace) -> list[faults.Happened]:
    """A fault every so many seconds until the time is over; each kind comes about as often as any other."""
    happened: list[faults.Happened] = []
    end = time.monotonic() + given.minutes * 60
    kinds: list[str] = []
    while time.monotonic() < end:
        began = time.monotonic()
        kinds = kinds or here.chance.sample(given.kinds, len(given.kinds))
        kind = kinds.pop()
        fault = await faults.happen(here, kind)
        happened.append(fault)
        print(f"{kind}: over after {fault.healed_at - began:.1f} s", flush=True)
        await asyncio.sleep(max(0.0, began + given.every - time.monotonic()))
    return happened


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=None, help="the same faults and load in the same order")
    parser.add_argument("--every", type=float, default=20, help="seconds from fault to fault")
    parser.add_argument("--databases", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--rate", type=int, default=240, help="one-offs a second, beside what the schedules fire")
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--kinds", nargs="+", choices=sorted(faults.KINDS), default=sorted(faults.KINDS))
    parser.add_argument("--folder", type=Path, default=None, help="keep logs and data here")
    given = parser.parse_args(arguments)
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(10**6)
    return given


def main(arguments: list[str] | None = None) -> int:
    """Run it, tell it; the exit status."""
    given = options(arguments)
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="horarium-chaos-", ignore_cleanup_errors=True) as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(run(given, folder))
    print(*found.told, sep="\n")
    print(*(f"BROKEN: {line}" for line in found.wrong), sep="\n")
    print(
        "every promise was kept" if not found.wrong else f"{len(found.wrong)} promises were broken (seed {given.seed})"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
