"""Whether the promises were kept, judged when all is well again: by the rows, by what people and workers were told, by memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from horarium.domain.run import LiveRun, Phase
from tests.simulation import books
from tests.simulation.model.server import Server
from tests.simulation.nodes import SimulatedNode
from tests.simulation.people import Promised
from tests.simulation.watch import Watch
from tests.simulation.workers import SimulatedWorker

YOUNG = timedelta(seconds=12)
"""A run that became ready within this time may be live still."""
WAITING = (Phase.WHEEL, Phase.LANE, Phase.HELD)


def of_the_rows(server: Server, watch: Watch, workers: Sequence[SimulatedWorker], promised: Promised) -> Iterator[str]:
    """Everything that is wrong with the rows."""
    yield from watch.broken
    yield from books.unbalanced(server)
    yield from _unfinished(server)
    yield from _without_cause(server, workers)
    yield from _not_as_acknowledged(server, workers)
    yield from _not_as_promised(server, watch, promised)


def _unfinished(server: Server) -> Iterator[str]:
    """Promise 2, and that it is kept in time."""
    held_up = {
        row["job_id"]
        for row in server.tables["runs"].values()
        if row["fencing_token"] and row["state"] == "waiting" and row["ready_at"] > server.now() + YOUNG
    }
    for row in server.tables["runs"].values():
        # Behind a retry of when the clock was hours ahead the job's overlap rule holds the others: that one counts as begun.
        if row["ready_at"] < server.now() - YOUNG and row["job_id"] not in held_up:
            overlap = server.tables["jobs"][row["job_id"]]["overlap"]
            yield (
                f"run {row['id']} is {row['state']} still, attempt {row['attempt']}, ready at {row['ready_at']}, "
                f"of job {row['job_id']}, overlap {overlap}"
            )
    for timer in server.tables["timers"].values():
        if timer["due_at"] < server.now() - timedelta(seconds=5):
            yield f"the timer of {timer['job_id']} is overdue since {timer['due_at']}"
    for row in server.tables["jobs"].values():
        if row["status"] == "error":
            yield f"job {row['id']} is in error: {row['status_reason']}"


def _without_cause(server: Server, workers: Sequence[SimulatedWorker]) -> Iterator[str]:
    """Promise 2: executed, or a dead letter, or cancelled by somebody."""
    executed = {(each.run_id, each.token) for worker in workers for each in worker.executions}
    repeated = {row["rerun_of"] for table in ("runs", "history") for row in server.tables[table].values()}
    for row in server.tables["history"].values():
        run_id = row["id"]
        if row["state"] == "succeeded" and (run_id, row["fencing_token"]) not in executed:
            yield f"run {run_id} succeeded under {row['fencing_token']}, and nobody carried it out"
        if row["state"] == "dead" and run_id not in server.tables["dead_letters"] and run_id not in repeated:
            yield f"run {run_id} is dead, without a letter"
        if row["state"] == "cancelled" and " by " not in (row["error"] or ""):
            yield f"run {run_id} was cancelled by nobody: {row['error']}"


def _not_as_acknowledged(server: Server, workers: Sequence[SimulatedWorker]) -> Iterator[str]:
    """Promises 3 and 4, for workers: an accepted report is durable, a refused one changed nothing."""
    succeeded = {
        (row["id"], row["fencing_token"]) for row in server.tables["history"].values() if row["state"] == "succeeded"
    }
    for worker in workers:
        for told in worker.answers:
            is_so = (told.run_id, told.token) in succeeded
            if told.outcome == "succeeded" and told.accepted != is_so:
                word = "accepted" if told.accepted else "refused"
                yield f"success of {told.run_id} under {told.token} was {word}, and the rows say otherwise"


def _not_as_promised(server: Server, watch: Watch, promised: Promised) -> Iterator[str]:
    """Promise 4, for people."""
    for job_id in promised.created:
        if job_id not in server.tables["jobs"]:
            yield f"job {job_id} was acknowledged, and is not there"
    for job_id in promised.deleted:
        if server.tables["jobs"][job_id]["deleted_at"] is None:
            yield f"job {job_id} was deleted, and is there"
    for run_id in promised.made:
        if run_id not in server.tables["runs"] and run_id not in server.ended:
            yield f"run {run_id} was made by hand, and is nowhere"
    for run_id in promised.cancelled:
        if run_id in watch.made and run_id in server.tables["runs"] and run_id not in server.ended:
            yield f"run {run_id} was cancelled, and lives"


def of_leadership(server: Server, nodes: Sequence[SimulatedNode]) -> Iterator[str]:
    """Each shard has one leader that knows it."""
    for shard, row in server.tables["shards"].items():
        believers = [
            node.name for node in nodes if node.plane is not None and node.plane.leader.terms.get(shard) == row["term"]
        ]
        others = [
            node.name
            for node in nodes
            if node.plane is not None and shard in node.plane.leader.terms and node.name not in believers
        ]
        if len(believers) != 1 or others:
            yield f"shard {shard}, term {row['term']} of {row['leader']}, is led by {believers}, believed by {others}"


def of_memory(server: Server, nodes: Sequence[SimulatedNode]) -> dict[Any, str]:
    """How memory differs from the rows, by run: some of it may be on its way."""
    found: dict[Any, str] = {}
    for node in nodes:
        if node.plane is None:
            continue
        leader = node.plane.leader
        known = {run.id: run for run in leader.ready.runs.values()}
        for row in server.tables["runs"].values():
            run = known.pop(row["id"], None)
            if row["shard"] in leader.terms and (said := _difference(row, run)):
                found[row["id"]] = f"{node.name}: {said}"
        found |= {run_id: f"{node.name}: run {run_id} has no row ({run.phase})" for run_id, run in known.items()}
    return found


def _difference(row: dict[str, Any], run: LiveRun | None) -> str | None:
    if run is None:
        return f"run {row['id']}, {row['state']}, is not in memory"
    if row["state"] == "running" and (run.phase is not Phase.RUNNING or run.token != row["fencing_token"]):
        return f"run {row['id']} is running under {row['fencing_token']}, in memory {run.phase} under {run.token}"
    if row["state"] == "waiting" and run.phase not in WAITING:
        return f"run {row['id']} waits, in memory it is {run.phase} under {run.token}"
    return None


def of_leaks(nodes: Sequence[SimulatedNode], workers: Sequence[SimulatedWorker]) -> Iterator[str]:
    """What memory keeps that nobody needs, and counts that are wrong."""
    for node in nodes:
        if node.plane is None:
            continue
        ready = node.plane.leader.ready
        in_lanes = sum(run.phase is Phase.LANE for run in ready.runs.values())
        if ready.queued != in_lanes:
            yield f"{node.name} counts {ready.queued} queued runs, {in_lanes} are in lanes"
        running = {run.id for run in ready.runs.values() if run.phase is Phase.RUNNING}
        leased = {run.id for run in ready.leases.all()}
        if running != leased:
            yield f"{node.name} has leases without runs, or runs without leases: {running ^ leased}"
        kept = {run.id for job in ready._jobs.values() for run in (*job.live.values(), *job.held)}
        if not kept <= set(ready.runs):
            yield f"{node.name} counts runs as live that are gone: {kept - set(ready.runs)}"
        if node.plane.dispatcher.waiting() > 2 * len(workers):
            yield f"{node.name} has {node.plane.dispatcher.waiting()} requests waiting"
        if node.plane.completer._requests:
            yield f"{node.name} has reports that nobody takes in"
