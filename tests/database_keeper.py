"""Keeps the cluster of a run of pytest until the run ends: `database_keeper.py DIRECTORY` (see `tests.databases`).

Prints the superuser's address when the cluster is ready.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

from horarium import embedded

SETTINGS = {"shared_buffers": "128MB", "max_connections": "300", "max_wal_size": "1GB"}


def main(directory: Path) -> None:
    """Start the cluster, wait for the end of the run, stop it, remove the directory."""
    with (directory / "keeper").open("w") as mine, (directory / "alive").open("r+") as of_controller:
        fcntl.flock(mine, fcntl.LOCK_EX)
        with embedded.EmbeddedCluster(directory / "cluster", durable=False, settings=SETTINGS) as cluster:
            (directory / "admin_url").write_text(cluster.dsn, encoding="ascii")
            sys.stdout.write(f"{cluster.dsn}\n")
            sys.stdout.flush()
            fcntl.flock(of_controller, fcntl.LOCK_EX)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
