"""Data directories to start clusters in.

They are removed at once, unlike pytest's own temporary directories: a cluster is 40 MB.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from horarium import embedded


@pytest.fixture
def closed_dir() -> Iterator[Path]:
    """A directory that only we may enter: not another account that PostgreSQL may run as."""
    with tempfile.TemporaryDirectory(prefix="hrm-") as directory:
        yield Path(directory)


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory that everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="hrm-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def data_dir(closed_dir: Path) -> Path:
    """A data directory that does not exist yet."""
    return closed_dir / "data"


@pytest.fixture(scope="session")
def _pattern() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hrm-") as directory:
        with embedded.EmbeddedCluster(Path(directory) / "data", durable=False):
            pass
        yield Path(directory) / "data"


@pytest.fixture
def filled_dir(_pattern: Path, data_dir: Path) -> Path:
    """A data directory with a cluster in it that was stopped in order: a copy, which is quicker than a new one."""
    subprocess.run(["cp", "-a", _pattern, data_dir], check=True)
    return data_dir
