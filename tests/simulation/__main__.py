"""Play seeds: `python -m tests.simulation --seeds 200`, or one of them with everything that happened: `--seed 17 --trace`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.simulation.story import Told, play


def main() -> int:
    """Play the seeds that were asked for; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="play this seed alone; may be given several times")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to play (200)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (0)")
    parser.add_argument("--trace", action="store_true", help="tell everything that happens")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes play (all cores)")
    asked = parser.parse_args()
    if asked.seed:
        tales = [play(seed, trace=asked.trace) for seed in asked.seed]
        for told in tales:
            _tell(told, lines=not asked.trace)
        return 1 if any(told.wrong for told in tales) else 0
    return _play_many(range(asked.first, asked.first + asked.seeds), asked.jobs)


def _play_many(seeds: range, jobs: int) -> int:
    started, failed, ended, executions = time.monotonic(), [], 0, 0
    with ProcessPoolExecutor(jobs) as pool:
        chunk = max(1, min(20, len(seeds) // (4 * jobs)))
        for told in pool.map(play, seeds, chunksize=chunk):
            ended += told.ended
            executions += told.executions
            if told.wrong:
                failed.append(told.seed)
                _tell(told, lines=len(failed) <= 3, most=5)
    took = time.monotonic() - started
    print(f"{len(seeds)} seeds, {ended} runs, {executions} executions, {took:.0f} s; broken: {failed or 'none'}")
    return 1 if failed else 0


def _tell(told: Told, *, lines: bool, most: int = 40) -> None:
    print(
        f"seed {told.seed}: {told.ended} runs ended, {told.executions} executions, {told.turns} turns, {told.digest:08x}"
    )
    if told.wrong and lines:
        print("\n".join(islice(told.lines, max(0, len(told.lines) - 60), None)))
    for wrong in told.wrong[:most]:
        print(f"  BROKEN in seed {told.seed}: {wrong}")


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of a set of texts is part of what a seed decides.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})
    sys.exit(main())
