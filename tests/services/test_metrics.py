"""What Prometheus reads: one node's figures, added up over the databases that it works in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from horarium import clock as clocks
from horarium.domain.ready_set import ReadySet
from horarium.events import Events, Name
from horarium.services.dispatcher import Dispatcher
from horarium.services.leader import Leader
from horarium.services.metrics import Metrics
from horarium.services.registry import Node, Registry
from horarium.services.releaser import Releaser
from horarium.services.tally import Tally
from horarium.services.watch import Watch
from horarium.store.database import Database
from tests.builders import LONG, a_run


@dataclass
class Plane:
    """The duties of a node in one database, none of which has begun."""

    leader: Leader
    registry: Registry
    dispatcher: Dispatcher
    tally: Tally
    watch: Watch


def plane(events: Events, led: int) -> Plane:
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    leader = Leader(clocks.DatabaseClock(), ReadySet(lease_s=15))
    leader.take_shards(dict.fromkeys(range(led), 1))
    releaser = Releaser(database, leader, events)
    return Plane(
        leader,
        Registry(database, leader, Node("n", None, "0", "host", 1)),
        Dispatcher(database, leader, releaser, events),
        Tally(database, leader),
        Watch(database, leader, events, LONG),
    )


@dataclass
class Reached:
    """Another node."""

    fault: str | None


def read(metrics: Metrics) -> dict[str, float]:
    """Every sample, by its name and labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        " ".join([sample.name, *sorted(sample.labels.values())]): sample.value
        for family in families
        for sample in family.samples
    }


def test_peers_that_cannot_be_reached_are_counted() -> None:
    peers = [Reached(None), Reached("no answer"), Reached(None)]
    found = read(Metrics("1.2", [plane(Events(), led=1)], Events(), peers))
    assert (found["horarium_peers"], found["horarium_peers_unreachable"]) == (3, 1)


def test_figures_of_several_databases_are_added_up() -> None:
    events = Events()
    here, there = plane(events, led=3), plane(events, led=2)
    for each, count in ((here, 2), (there, 3)):
        for _ in range(count):
            run = a_run(queue="mail")
            each.leader.ready.add(run)
            run.lag_s = 0.003
            each.tally.ended([run], Name.RUNS_SUCCEEDED)
        each.watch.dead_letters = {("default", "mail"): count}
        each.watch.oldest_snapshot_s = float(count)
    metrics = Metrics("1.2", [here, there], events)
    events.tell(Name.RUNS_FIRED, count=4)
    found = read(metrics)
    assert found["horarium_runs_fired_total"] == 4
    assert found["horarium_shards_led"] == found["horarium_shards_loading"] == 5
    assert found["horarium_live_runs"] == 5
    assert found["horarium_memory_full"] == 0
    assert found["horarium_runs_total mail succeeded"] == 5
    assert found["horarium_start_lag_seconds_count mail"] == 5
    assert found["horarium_start_lag_seconds_sum mail"] == pytest.approx(0.015)
    assert found["horarium_queue_depth mail scheduled"] == 5
    assert found["horarium_dead_letters mail"] == 5
    assert found["horarium_oldest_snapshot_seconds"] == 3


def test_a_shard_is_loading_until_all_that_waits_is_in_memory() -> None:
    events = Events()
    one = plane(events, 3)
    metrics = Metrics("1.2", [one], events)
    one.leader.loaded([0, 1])
    assert read(metrics)["horarium_shards_loading"] == 3
    one.leader.completed([0])
    found = read(metrics)
    assert (found["horarium_shards_led"], found["horarium_shards_loading"]) == (3, 2)
