"""The benchmarks are not run by the tests; that each can be started, and tells its figures in one shape, is."""

from __future__ import annotations

import asyncio
import importlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import benchmarks
from benchmarks import books, harness, starts, table, wire
from horarium.domain import ids

FOLDER = Path(benchmarks.__file__).parent
DUE = datetime(2026, 11, 30, 12, 0, 0, 250_500, tzinfo=UTC)


def programs() -> list[str]:
    """The modules that are run as programs."""
    return [path.stem for path in sorted(FOLDER.glob("*.py")) if '__name__ == "__main__"' in path.read_text("utf-8")]


def test_the_table_leaves_out_none() -> None:
    assert sorted(table.NAMES) == [name for name in programs() if name != "table"]


@pytest.mark.parametrize("name", programs())
def test_each_can_be_started_and_says_what_it_measures(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert callable(module.main)
    assert module.__doc__
    assert name == "table" or "Goal" in module.__doc__


def test_a_result_is_one_json_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    harness.tell(
        harness.Result("some.detail", 1234.5678, "µs"),
        harness.Result("some", 0.123456, "s", 2.0, 0.061728, "<= 1 s", ok=False),
    )
    detail, headline = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(headline) == ["bench", "value", "unit", "floor", "ratio", "goal", "ok", "machine", "commit"]
    assert (detail["value"], detail["floor"], detail["goal"], detail["ok"]) == (1234.6, None, "", True)
    assert (headline["value"], headline["ratio"], headline["ok"]) == (0.1235, 0.0617, False)


def test_a_row_of_the_table_shows_a_missed_goal() -> None:
    told = {
        "bench": "some",
        "value": 12345.6,
        "unit": "runs/s",
        "floor": 2.0,
        "ratio": None,
        "goal": "much",
        "ok": False,
    }
    cells = [cell.strip() for cell in table.row(told).strip("|").split("|")]
    assert cells == ["some", "12,346 runs/s", "2", "", "much", "missed"]


@pytest.mark.parametrize(("part", "expected"), [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_quantile_is_one_of_the_values(part: float, expected: int) -> None:
    assert harness.quantile(range(100, 0, -1), part) == expected


def test_starts_come_back_from_the_files_of_workers(tmp_path: Path) -> None:
    notes = starts.Notes()
    notes.add(DUE, DUE.timestamp() + 0.003)
    notes.write(tmp_path, "steady")
    (found,) = starts.read(tmp_path, "steady")
    assert found.lag_ms == pytest.approx(3.0, abs=0.01)
    assert starts.read(tmp_path, "steady", since=DUE.timestamp() + 0.001) == []
    assert starts.read(tmp_path, "wave") == []


def test_ids_bound_the_runs_of_a_window() -> None:
    run = ids.tick_run_id(ids.fresh_id(3, DUE, 2**70 - 1), 3, DUE)
    assert books.first_id(DUE) < run < books.first_id(DUE, 1)


async def test_an_answer_is_read_in_whatever_pieces_it_comes() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for status, body in ((201, b"first"), (503, b"")):
            await reader.readuntil(b"\r\n\r\nbody")
            for byte in b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body):
                writer.write(bytes([byte]))
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await wire.Connection.open(f"http://127.0.0.1:{port}")
        request = wire.request("POST", "/", "key", b"body")
        assert await connection.ask(request) == (201, b"first")
        assert await connection.ask(request) == (503, b"")
        with pytest.raises(ConnectionResetError):
            await connection.ask(request)
        connection.close()
