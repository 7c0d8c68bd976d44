"""What Prometheus reads: counters of events, and gauges read off the leader's memory at the moment of the scrape.

Nothing is counted per run through the client library: histograms are kept as plain lists by `tally` and put into Prometheus'
form here. There is no label for the tenant, which may have any number of values.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from horarium.clock import DatabaseClock
from horarium.events import Event, Events, Name
from horarium.services import tally as tallies
from horarium.services.dispatcher import Dispatcher
from horarium.services.leader import Leader
from horarium.services.registry import Registry
from horarium.services.tally import BUCKETS, Count, Tally
from horarium.services.watch import Watch

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily | InfoMetricFamily

BOUNDS = [str(2**index / 1000) for index in range(BUCKETS - 1)] + ["+Inf"]

COUNTED = {
    Name.RUNS_FIRED: ("horarium_runs_fired", "Scheduled ticks that became runs."),
    Name.RUNS_CLAIMED: ("horarium_runs_claimed", "Attempts handed to workers."),
    Name.LEASES_LAPSED: ("horarium_lease_expiries", "Attempts whose worker sent no heartbeat within the lease."),
    Name.REPORTS_REFUSED: ("horarium_reports_refused", "Reports that came too late and changed nothing."),
    Name.SWEEP_FOUND: ("horarium_sweep_finds", "Runs that memory and rows disagreed about."),
    Name.JOB_IN_ERROR: ("horarium_jobs_in_error", "Jobs that could not be planned and went to error."),
    Name.SNAPSHOT_HELD: ("horarium_snapshots_held", "Transactions that kept vacuum from its work for too long."),
    Name.DUTY_FAILED: ("horarium_duty_failures", "Steps of duties that failed and were tried again."),
    Name.CLOCK_STEPPED: ("horarium_clock_steps", "Steps of the database's clock."),
}


class Plane(Protocol):
    """The duties of a node in one database, as far as they have figures."""

    leader: Leader
    registry: Registry
    dispatcher: Dispatcher
    tally: Tally
    watch: Watch


class Reached(Protocol):
    """Another node, as far as it has figures: `fault` is why the last call to it failed."""

    fault: str | None


class Metrics(Collector):
    """Listens to events, and describes one node to Prometheus: what it does in all databases, added up."""

    def __init__(self, version: str, planes: Sequence[Plane], events: Events, peers: Iterable[Reached] = ()) -> None:
        self._version = version
        self._planes = planes
        self._peers = peers
        self._events: Counter[Name] = Counter()
        self._skips: Counter[str] = Counter()
        self._started = time.time()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        events.listen(self._count)

    def render(self) -> bytes:
        """The text that Prometheus reads. May take long with many queues: call it in a thread."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        """All families, read off memory now."""
        yield InfoMetricFamily("horarium_build", "The running version.", {"version": self._version})
        yield GaugeMetricFamily("horarium_start_time_seconds", "When this node started.", self._started)
        for name, (metric, text) in COUNTED.items():
            yield CounterMetricFamily(metric, text, self._events[name])
        outcomes = tallies.by_outcome(plane.tally for plane in self._planes)
        yield from self._outcomes(outcomes)
        yield from self._histograms(outcomes)
        yield from self._depths()
        yield from self._node()

    def _count(self, event: Event) -> None:
        count = event.fields.get("count", 1)
        self._events[event.name] += count
        if event.name is Name.TICKS_SKIPPED:
            self._skips[event.fields["reason"]] += count

    def _outcomes(self, outcomes: Mapping[tuple[str, str], Count]) -> Iterator[Family]:
        runs = CounterMetricFamily("horarium_runs", "Attempts that ended, by outcome.", labels=["queue", "outcome"])
        for (queue, outcome), ended in outcomes.items():
            runs.add_metric([queue, outcome], ended.count)
        yield runs
        skips = CounterMetricFamily("horarium_skips", "Ticks that did not become a run, by reason.", labels=["reason"])
        for reason, count in list(self._skips.items()):
            skips.add_metric([reason], count)
        yield skips

    def _histograms(self, outcomes: Mapping[tuple[str, str], Count]) -> Iterator[Family]:
        lag = HistogramMetricFamily(
            "horarium_start_lag_seconds", "From the due time to the hand-out to a worker.", labels=["queue"]
        )
        duration = HistogramMetricFamily(
            "horarium_run_duration_seconds", "From the hand-out to the report, by attempt.", labels=["queue"]
        )
        for queue, ended in tallies.by_queue(outcomes).items():
            lag.add_metric([queue], _cumulative(ended.lag_ms), ended.lag_sum)
            duration.add_metric([queue], _cumulative(ended.duration_ms), ended.duration_sum)
        yield lag
        yield duration

    def _depths(self) -> Iterator[Family]:
        depth = GaugeMetricFamily("horarium_queue_depth", "Live runs by queue and state.", labels=["queue", "state"])
        oldest = GaugeMetricFamily(
            "horarium_oldest_due_seconds", "How long the oldest due run has waited.", labels=["queue"]
        )
        totals: Counter[tuple[str, str]] = Counter()
        waits: dict[str, float] = {}
        for leader in (plane.leader for plane in self._planes):
            now = leader.clock.time()
            for (queue, _), found in leader.ready.depths().items():
                totals[queue, "scheduled"] += found.scheduled
                totals[queue, "queued"] += found.queued
                totals[queue, "running"] += found.running
                if found.oldest is not None:
                    waits[queue] = max(waits.get(queue, 0.0), now - found.oldest)
        for (queue, state), count in totals.items():
            depth.add_metric([queue, state], count)
        for queue, seconds in waits.items():
            oldest.add_metric([queue], max(0.0, seconds))
        yield depth
        yield oldest

    def _node(self) -> Iterator[Family]:
        letters = GaugeMetricFamily("horarium_dead_letters", "Open dead letters by queue.", labels=["queue"])
        by_queue: Counter[str] = Counter()
        for plane in self._planes:
            for (_, queue), count in plane.watch.dead_letters.items():
                by_queue[queue] += count
        for queue, count in by_queue.items():
            letters.add_metric([queue], count)
        yield letters
        leaders, watches = [plane.leader for plane in self._planes], [plane.watch for plane in self._planes]
        workers = {name for plane in self._planes for name in plane.registry.workers}
        # Requests wait for the runs of all databases at once, and are counted once.
        waiting = self._planes[0].dispatcher.waiting()
        faults = [peer.fault for peer in self._peers]
        for name, text, value in (
            ("horarium_workers", "Workers that this node hears.", len(workers)),
            ("horarium_idle_requests", "Requests of workers that wait.", waiting),
            ("horarium_shards_led", "Shards that this node leads.", sum(len(each.terms) for each in leaders)),
            (
                "horarium_shards_loading",
                "Of these the ones of which not everything is in memory yet.",
                sum(len(each.loading) for each in leaders),
            ),
            ("horarium_peers", "Other live nodes of the cluster that have an address.", len(faults)),
            ("horarium_peers_unreachable", "Of these the ones whose last call failed.", sum(map(bool, faults))),
            ("horarium_live_runs", "Live runs in memory.", sum(len(each.ready) for each in leaders)),
            (
                "horarium_memory_full",
                "Databases with more live runs than memory takes: the others wait in the table.",
                sum(each.ready.overflowed for each in leaders),
            ),
            (
                "horarium_running_runs",
                "Runs that are leased to workers.",
                sum(len(each.ready.leases) for each in leaders),
            ),
            (
                "horarium_timers_overdue",
                "Timers more than 5 s overdue, counted to 10,000.",
                sum(each.overdue_timers for each in watches),
            ),
            (
                "horarium_oldest_snapshot_seconds",
                "Age of the oldest transaction that keeps vacuum from its work.",
                max(each.oldest_snapshot_s for each in watches),
            ),
        ):
            yield GaugeMetricFamily(name, text, value)
        skews = [each.clock.skew() for each in leaders if isinstance(each.clock, DatabaseClock)]
        if skews:
            yield GaugeMetricFamily(
                "horarium_clock_skew_seconds", "This machine's clock minus the database's.", max(skews, key=abs)
            )


def _cumulative(buckets: list[int]) -> list[tuple[str, float]]:
    total = 0
    shown = []
    for bound, count in zip(BOUNDS, buckets, strict=True):
        total += count
        shown.append((bound, float(total)))
    return shown
