"""The profile that `horarium dev` writes, so that the other commands find it without flags."""

from __future__ import annotations

import json
from pathlib import Path

from horarium import errors
from horarium.cli import secret_file
from horarium.sdk import profile


def write(url: str, data_dir: Path) -> Path | None:
    """The profile's path, or None where one stands that is somebody's own: it is left as it is.

    A profile with `data_dir` was written here; it is brought up to date. The key stays in the data directory's file.
    """
    file = profile.path()
    if not _is_ours(file):
        return None
    # A JSON string is a TOML string, but for DEL, which no path of ours holds.
    text = f"# Written by `horarium dev`.\nurl = {json.dumps(url)}\ndata_dir = {json.dumps(str(data_dir))}\n"
    try:
        secret_file.write(file, text)
    except OSError:
        return None  # no home directory, or a read-only one: everything still works with HORARIUM_URL
    return file


def _is_ours(file: Path) -> bool:
    try:
        kept = profile.read(file)
    except errors.ConfigurationError:
        return False
    return not kept or "data_dir" in kept
