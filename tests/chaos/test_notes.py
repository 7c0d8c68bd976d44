"""How the chaos program reads what the handlers noted."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from tests.chaos import notes

RUN = UUID(int=1)


def read(folder: Path, **lines: list[str]) -> notes.Notes:
    """The notes of some processes: lines without the run."""
    for pid, noted in lines.items():
        texts = [f"{what} {RUN} {token} {at}" for what, token, at in (line.split() for line in noted)]
        (folder / f"notes-{pid.removeprefix('p')}.txt").write_text("\n".join(texts))
    return notes.read(folder)


def test_what_was_at_work_is_counted_to_its_next_start(tmp_path: Path) -> None:
    found = read(tmp_path, p1=["start 10 1.0"], p2=["start 11 9.0", "end 11 9.5"])
    assert found.left_by(1, 3.0) == [(RUN, 9.0)]
    assert found.left_by(2, 9.2) == []


def test_what_never_started_again_took_for_ever(tmp_path: Path) -> None:
    assert read(tmp_path, p1=["start 10 1.0"]).left_by(1, 3.0) == [(RUN, float("inf"))]


def test_an_attempt_under_an_old_token_was_not_at_work(tmp_path: Path) -> None:
    """The worker was frozen with the run in hand, began it when it went on, and was told that it was another's."""
    found = read(tmp_path, p1=["start 10 5.0"], p2=["start 11 2.0", "end 11 2.5"])
    assert found.left_by(1, 60.0) == []
