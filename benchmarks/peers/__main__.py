"""The works of every peer in one run: `python -m benchmarks.peers [--quick] [--json] [--only NAME…] [--works WORK…] …`.

`--install` makes the environments of the peers first (`make peers`), and does nothing else. One embedded PostgreSQL serves all,
with the same settings, and a fresh database for each use. Rounds of the drain are interleaved and their medians told, since
machines are noisy: compare within one run only.
Goal: a drain of 20,000 no-op one-offs at least as fast as the best peer's, and at least 28,000 jobs a second.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
import sys

import uvloop

from benchmarks import harness
from benchmarks.peers import comparison, peers, report, works


def main() -> None:
    """Read the command line, measure, print."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = arguments()
    chosen = [peer for peer in peers.ALL if not given.only or peer.name in given.only]
    if given.install:
        sys.exit(install([peer.name for peer in chosen]))
    plan = comparison.quick() if given.quick else comparison.full()
    asked_for = {"works": given.works, "processes": given.processes, "rounds": given.rounds}
    plan = dataclasses.replace(plan, **{name: value for name, value in asked_for.items() if value})
    with harness.cluster(max_connections="300") as cluster:
        found = uvloop.run(comparison.run(cluster.dsn, chosen, plan, _say_nothing if given.json else _say))
    if given.json:
        facts = {"machine": harness.machine(), "commit": harness.commit()}
        for findings in found:
            print(json.dumps(report.as_object(findings) | facts, ensure_ascii=False))
    else:
        print(f"\n{harness.machine()}, commit {harness.commit()}\n", *report.lines(found), sep="\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    names = [peer.name for peer in peers.ALL]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes; the minute mark only when it is named")
    parser.add_argument("--json", action="store_true", help="nothing but JSON lines")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--works", nargs="+", choices=works.NAMES, metavar="WORK", help=f"of {', '.join(works.NAMES)}")
    parser.add_argument(
        "--processes", nargs="+", type=int, metavar="N", help="workers of the drains, 1 and 2 unless given"
    )
    parser.add_argument("--rounds", type=int, help="of the drains")
    parser.add_argument("--install", action="store_true", help="make the environments of the peers, and end")
    return parser.parse_args()


def install(names: list[str]) -> int:
    """Make the environments of some peers; the exit code."""
    failed = 0
    for environment in peers.environments(names):
        try:
            reason = environment.make()
        except subprocess.CalledProcessError as error:
            reason, failed = f"failed: {error}", 1
        print(f"{environment.name}: {reason or 'installed'}", flush=True)
    return failed


def _say(text: str) -> None:
    print(text, flush=True)


def _say_nothing(text: str) -> None:
    """With --json there is nothing but JSON."""


if __name__ == "__main__":
    main()
