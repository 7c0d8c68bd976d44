"""Files that hold one secret, readable by their owner only."""

from __future__ import annotations

import os
from pathlib import Path


def write(file: Path, text: str) -> None:
    """Write a file with mode 600 from its first byte on; an existing one is replaced as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text.rstrip("\n") + "\n")
    fresh.replace(file)


def read(file: Path) -> str | None:
    """What a file holds, without the line end; None where there is no such file."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
