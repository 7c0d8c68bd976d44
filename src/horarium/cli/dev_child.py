"""A command of `horarium` as a child of `horarium dev`: the kernel tells it to stop when its parent dies.

python -m horarium.cli.dev_child PARENT_PID COMMAND [ARGUMENT …]
"""

from __future__ import annotations

import os
import signal
import sys

from horarium.cli import main
from horarium.embedded import trampoline


def run(arguments: list[str]) -> None:
    """Run the command that stands behind the parent's process id."""
    parent = int(arguments[0])
    trampoline.request_death_signal(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("horarium dev ended before its worker began")
    main.cli(arguments[1:], prog_name="horarium")


if __name__ == "__main__":
    run(sys.argv[1:])
