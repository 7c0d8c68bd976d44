"""`python -m tests.chaos`: build an installation, let faults happen to it at random, judge it. Exit 1 if a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.chaos import clocking, faults, load, verdict, watch, world

WARM_UP_S = 5.0
HEAL_S = 10.0  # longer than a lease: what a last fault left hanging has been taken back


async def run(given: argparse.Namespace, folder: Path) -> verdict.Verdict:
    """Load, faults, an end of faults, the verdict."""
    size = world.Size(given.databases, given.nodes, given.workers, given.lease)
    here = world.World(folder, size, random.Random(given.seed))
    looking = watch.Watch(here)
    under = load.Load(here, given.rate, given.schedules, random.Random(given.seed + 1))
    try:
        await here.start()
        since, epoch = await clocking.database_epoch(here.database_urls[0])
        looking.start()
        await under.start()
        await asyncio.sleep(WARM_UP_S)
        happened = await go_wrong(here, given)
        await asyncio.sleep(given.lease + HEAL_S)
        await under.stop()
        course = verdict.Course(happened, looking, since - timedelta(seconds=1), epoch)
        found = await verdict.judge(here, under, course, given.slack)
        say(
            f"{len(happened)} faults, {looking.changes} shards changed hands; {len(under.acknowledged):,} one-offs acknowledged, "
            f"{under.refused:,} refused; {under.changes} edits, pauses, resumes and runs by hand"
        )
        return found
    finally:
        await under.stop()
        await looking.stop()
        await here.close()


async def go_wrong(here: world.World, given: argparse.Namespace) -> list[faults.Happened]:
    """A fault every so many seconds until the time is over; each kind comes about as often as any other."""
    happened: list[faults.Happened] = []
    end = time.monotonic() + given.minutes * 60
    kinds: list[str] = []
    while time.monotonic() < end:
        began = time.monotonic()
        kinds = kinds or here.chance.sample(given.kinds, len(given.kinds))
        fault = await faults.happen(here, kinds.pop())
        happened.append(fault)
        say(f"{fault.kind}: over after {fault.healed_at - began:.1f} s")
        await asyncio.sleep(max(0.0, began + given.every - time.monotonic()))
    return happened


def say(text: str) -> None:
    """Tell it at once, with the time."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", flush=True)


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=None, help="the same faults in the same order")
    parser.add_argument("--every", type=float, default=20, help="seconds from fault to fault")
    parser.add_argument("--databases", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--lease", type=float, default=15, help="seconds without a heartbeat until a run is taken back")
    parser.add_argument("--rate", type=int, default=240, help="one-offs a second, beside what the schedules fire")
    parser.add_argument("--schedules", type=int, default=500)
    parser.add_argument("--kinds", nargs="+", choices=sorted(faults.KINDS), default=sorted(faults.KINDS))
    parser.add_argument("--slack", type=float, default=1.0, help="a factor on the bounds of time, for a busy machine")
    parser.add_argument("--folder", type=Path, default=None, help="keep logs and data here")
    given = parser.parse_args(arguments)
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(10**6)
    return given


def main(arguments: list[str] | None = None) -> int:
    """Run it, tell it; the exit status. Logs and data are kept when something was broken."""
    given = options(arguments)
    say(
        f"seed {given.seed}: {given.databases} databases, {given.nodes} nodes, {given.workers} workers; "
        f"{given.rate} one-offs a second, {given.schedules} schedules; a fault every {given.every:g} s for {given.minutes:g} min"
    )
    folder = given.folder or Path(tempfile.mkdtemp(prefix="horarium-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    found = asyncio.run(run(given, folder))
    print("", *found.lines(), "", sep="\n")
    if found.broken:
        say(f"{len(found.broken)} promises were broken: --seed {given.seed}; logs and data are in {folder}")
        return 1
    say(f"every promise was kept (seed {given.seed})")
    if given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
