"""All benchmarks one after another, and a table of what they found: `python -m benchmarks.table [NAME…] [--full] [--json]`.

The short forms take about six minutes, the full ones some hours. A goal that is missed is shown, and is no failure; a benchmark
that breaks off is one: its books did not balance, or it could not be carried out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import harness

NAMES = (
    "startup", "floor", "fire", "end_to_end", "start_lag", "minute_mark", "wave", "create", "fairness", "held_snapshot",
    "scale", "fleet", "memory", "move",
)  # fmt: skip
ROOT = Path(__file__).parent.parent
WIDTHS = (28, 24, 12, 7, 52, 6)
HEAD = ("benchmark", "value", "floor", "ratio", "goal", "")


def main() -> None:
    """Run them, print as they come, exit 1 when one broke off."""
    given = arguments()
    began = time.monotonic()
    told: list[dict[str, Any]] = []
    broken: list[str] = []
    if not given.json:
        print(f"{harness.machine()}, commit {harness.commit()}, {'full' if given.full else 'short'} forms\n")
        print(line(HEAD), line(["-" * width for width in WIDTHS]), sep="\n", flush=True)
    for name in given.names or NAMES:
        try:
            for result in results_of(name, full=given.full):
                told.append(result)
                print(json.dumps(result, ensure_ascii=False) if given.json else row(result), flush=True)
        except subprocess.CalledProcessError:
            broken.append(name)
            if not given.json:
                print(line([name, "broke off", "", "", "", "FAILED"]), flush=True)
    if not given.json:
        missed = [result["bench"] for result in told if not result["ok"]]
        print(f"\n{time.monotonic() - began:.0f} s; goals missed: {', '.join(missed) or 'none'}")
    sys.exit(1 if broken else 0)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="NAME", help="these only")
    parser.add_argument("--full", action="store_true", help="the full forms, which take hours")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON lines")
    return parser.parse_args()


def results_of(name: str, *, full: bool) -> Iterator[dict[str, Any]]:
    """Run one benchmark; its results as they come."""
    command = harness.python("-m", f"benchmarks.{name}", "--json", *([] if full else ["--quick"]))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield from map(json.loads, child.stdout)
        finally:
            if sys.exc_info()[0] is not None:
                child.terminate()  # this program was interrupted: so is that one, which ends in order
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)


def row(result: dict[str, Any]) -> str:
    """One result as a line of the table."""
    verdict = ("ok" if result["ok"] else "missed") if result["goal"] else ""
    value = f"{number(result['value'])} {result['unit']}"
    return line([result["bench"], value, number(result["floor"]), number(result["ratio"]), result["goal"], verdict])


def number(value: float | None) -> str:
    """A number as people read it: three figures at least, never more than are known."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def line(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)) + " |"


if __name__ == "__main__":
    main()
