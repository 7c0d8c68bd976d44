"""Keeps the cluster of a run of pytest until the run ends: `database_keeper.py DIRECTORY` (see `tests.databases`).

Prints the superuser's address when the cluster is ready.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from horarium import embedded

SETTINGS = {"shared_buffers": "128MB", "max_connections": "300", "max_wal_size": "1GB"}


def main(directory: Path) -> None:
    """Start the cluster, wait for the end of the run, stop it, remove the directory."""
    with (directory / "keeper").open("w") as mine, (directory / "alive").open("r+") as of_controller:
        fcntl.flock(mine, fcntl.LOCK_EX)
        with running(directory) as url:
            (directory / "admin_url").write_text(url, encoding="ascii")
            sys.stdout.write(f"{url}\n")
            sys.stdout.flush()
            fcntl.flock(of_controller, fcntl.LOCK_EX)
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def running(directory: Path) -> Iterator[str]:
    """The embedded PostgreSQL, or the version whose programs the environment names; gives the superuser's address."""
    if not os.environ.get("HORARIUM_TEST_POSTGRES_BIN"):
        with embedded.EmbeddedCluster(directory / "cluster", durable=False, settings=SETTINGS) as cluster:
            yield cluster.dsn
        return
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests import postgres  # started by path: our packages are no top-level modules

    with (
        postgres.open_folder() as folder,
        postgres.Server(folder, given=SETTINGS | {"synchronous_commit": "off"}) as server,
    ):
        server.create().start()
        yield server.url


if __name__ == "__main__":
    main(Path(sys.argv[1]))
