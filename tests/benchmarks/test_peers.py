"""The comparison with other systems needs none of them to work: each adapter says what is missing, and Horarium's own runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.peers import comparison, horarium, install, peers, report, works
from benchmarks.peers.comparison import Findings, Plan
from benchmarks.peers.peer import Peer, ProgramPeer
from benchmarks.peers.programs import called
from benchmarks.peers.works import Drain, Lag

PROGRAM_PEERS = [peer for peer in peers.ALL if isinstance(peer, ProgramPeer)]
TINY = Plan(("drain", "start_lag"), count=200, rounds=1, at_most_s=60.0, lag_s=1, marks=1, rate=20)


def test_horarium_comes_first_and_every_name_is_its_own() -> None:
    names = [peer.name for peer in peers.ALL]
    assert names[0] == report.OWN
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("peer", PROGRAM_PEERS, ids=lambda peer: peer.name)
def test_each_peer_has_a_program_and_pinned_requirements(peer: ProgramPeer) -> None:
    assert (install.FOLDER / "programs" / peer.program).is_file()
    if isinstance(peer.environment, install.Node):
        wanted = json.loads((install.REQUIREMENTS / "package.json").read_text("utf-8"))["dependencies"]
        assert all(wanted[package][0].isdigit() for package in peer.packages)
    else:
        pinned = (install.REQUIREMENTS / f"{peer.environment.name}.txt").read_text("utf-8").lower()
        names = {line.split("==")[0].split("[")[0] for line in pinned.splitlines() if "==" in line}
        assert {package.lower() for package in peer.packages} <= names
        assert "--hash=sha256:" in pinned
        assert "://" not in pinned


@pytest.mark.parametrize("peer", peers.ALL, ids=lambda peer: peer.name)
def test_what_a_peer_cannot_or_what_is_remarked_names_a_work(peer: Peer) -> None:
    assert {*peer.cannot, *peer.remarks} <= set(works.NAMES)


@pytest.mark.parametrize("peer", PROGRAM_PEERS, ids=lambda peer: peer.name)
def test_a_peer_that_is_not_installed_says_so(
    peer: ProgramPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "INSTALLED", tmp_path)
    assert peer.available() in {install.HINT, "npm was not found"}


async def test_horarium_drains_and_starts_on_time_beside_nobody(
    admin_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "WARM_UP", 100)
    said: list[str] = []
    (found,) = await comparison.run(admin_url, [horarium.Horarium()], TINY, said.append)
    assert found.failures == {}
    assert found.drains.keys() == {1, 2}
    assert {drain.count for drains in found.drains.values() for drain in drains} == {200}
    assert (found.lags["start_lag"].missed, found.lags["start_lag"].doubled) == (0, 0)
    assert "horarium" in report.lines([found])[2]


async def test_a_peer_that_is_not_there_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "INSTALLED", tmp_path)
    said: list[str] = []
    assert await comparison.run("unused", PROGRAM_PEERS, TINY, said.append) == []
    assert [line.split(":")[0] for line in said if "left out" in line] == [peer.name for peer in PROGRAM_PEERS]


def test_jobs_with_a_time_are_a_step_apart() -> None:
    first, second = next(called.batches("7", "2", "100.5", "0.25"))
    assert (first.n, second.n) == (7, 8)
    assert (second.due - first.due).total_seconds() == 0.25
    assert next(called.batches("7", "1"))[0].due is None


def findings(name: str, *rates: float) -> Findings:
    peer = next(peer for peer in peers.ALL if peer.name == name)
    drains = {processes: [Drain(rate, 20_000, 30.0, 40.0)] for processes, rate in enumerate(rates, 1)}
    return Findings(peer, drains, {"start_lag": Lag(0.5, 2.0)})


@pytest.mark.parametrize(
    ("own", "others", "reached"),
    [
        ((30_000.0, 31_000.0), (20_000.0, 30_900.0), "reached"),
        ((30_000.0,), (30_100.0,), "missed"),
        ((27_000.0,), (9.0,), "missed"),
    ],
)
def test_the_verdict_compares_the_best_of_each(own: tuple[float, ...], others: tuple[float, ...], reached: str) -> None:
    told = report.verdict([findings("horarium", *own), findings("graphile-worker", *others), findings("pgqueuer", 1.0)])
    assert told.endswith(reached)
    assert "graphile-worker" in told
