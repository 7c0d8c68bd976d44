"""Start-up: how soon `horarium dev` is ready, in a new directory and in one that has been used, and how soon the CLI answers.

Ready is the line HORARIUM READY: PostgreSQL, server, workers and sample jobs are there. The first start creates the cluster
and the schema. The CLI is timed from outside, the median of several calls: `--help`, and `jobs list`, which asks the server.
The floor is an interpreter that does nothing. Profile and data stand in directories of the benchmark's own.
Goals: ready within 3 s, both times; the CLI within 0.3 s, both calls.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks import harness

GOAL_READY_S, GOAL_CLI_S = 3.0, 0.3
STOPS_WITHIN_S = 40


def measure(folder: Path, given: harness.Options) -> list[harness.Result]:
    """The floor; two starts; in the second one the CLI."""
    calls, warm_starts = (5, 0) if given.quick else (20, 4)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORARIUM_")}
    environment |= {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
    floor = median_s([sys.executable, "-c", "pass"], environment, calls)
    with dev(folder, environment) as first_s:
        pass
    warm_s = []
    for _ in range(warm_starts):
        with dev(folder, environment) as ready_s:
            warm_s.append(ready_s)
    with dev(folder, environment) as ready_s:
        warm_s.append(ready_s)
        help_s = median_s(harness.python("-m", "horarium", "--help"), environment, calls)
        list_s = median_s(harness.python("-m", "horarium", "jobs", "list"), environment, calls)
    results = [
        harness.Result("startup.cli_help", help_s, "s", floor, help_s / floor, *goal("CLI", help_s, GOAL_CLI_S)),
        harness.Result("startup.cli_list", list_s, "s", floor, list_s / floor, *goal("CLI", list_s, GOAL_CLI_S)),
        ready("startup.dev_warm", statistics.median(warm_s), floor),
        ready("startup.dev_first", first_s, floor),
    ]
    slower = max(results[-2:], key=lambda result: result.value)
    ok = all(result.ok for result in results)
    return [*results, harness.Result("startup", slower.value, "s", floor, slower.value / floor, slower.goal, ok)]


@contextmanager
def dev(folder: Path, environment: Mapping[str, str]) -> Iterator[float]:
    """A `horarium dev`, once it is ready: how long that took. Stopped at the end as Ctrl-C does."""
    started = time.perf_counter()
    with (folder / "dev.log").open("ab") as log:
        child = subprocess.Popen(
            harness.python("-m", "horarium", "dev", "--port", "0", "--data-dir", str(folder / "data")),
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert child.stdout is not None
    try:
        if not any(b"HORARIUM READY" in line for line in child.stdout):
            raise RuntimeError(f"`horarium dev` ended:\n{(folder / 'dev.log').read_text()}")
        yield time.perf_counter() - started
        child.send_signal(signal.SIGINT)
        child.wait(STOPS_WITHIN_S)
    finally:
        child.kill()
        child.wait()


def median_s(command: list[str], environment: Mapping[str, str], calls: int) -> float:
    """How long a command takes."""
    took = []
    for _ in range(calls + 1):
        started = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - started)
    return statistics.median(took[1:])


def ready(name: str, value: float, floor: float) -> harness.Result:
    """How soon `horarium dev` was ready."""
    return harness.Result(name, value, "s", floor, value / floor, *goal("ready", value, GOAL_READY_S))


def goal(what: str, value: float, limit: float) -> tuple[str, bool]:
    """The goal in words, and whether it is reached."""
    return f"{what} <= {limit:g} s", value <= limit


def main() -> None:
    """Run it."""
    given = harness.options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="horarium-bench-", ignore_cleanup_errors=True) as name:
        harness.tell(*measure(Path(name), given))


if __name__ == "__main__":
    main()
