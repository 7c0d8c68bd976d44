"""Tests mirror the sources: who looks for the tests of a module finds them where it stands, or here, with the reason.

`src/horarium/domain/lanes.py` is tested by `tests/domain/test_lanes.py`, or by several files `test_lanes_….py`, or by
another file of `tests/domain/` that imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.rules import tree

# Modules whose tests stand elsewhere: where, and why.
ELSEWHERE = {
    "api/answers.py": ("tests/api/test_operation.py", "every answer goes through it"),
    "api/audit.py": ("tests/api/test_lists.py", "a route, tested over HTTP"),
    "api/cron.py": ("tests/api/test_lists.py", "a route, tested over HTTP"),
    "api/docs.py": ("tests/api/test_operation.py", "a page, tested over HTTP"),
    "api/health.py": ("tests/api/test_operation.py", "routes, tested over HTTP"),
    "api/job_actions.py": ("tests/api/test_jobs.py", "routes beside a job, tested over HTTP"),
    "api/job_view.py": ("tests/api/test_jobs.py", "the shape of each answer about a job"),
    "api/keys.py": ("tests/api/test_lists.py", "routes, tested over HTTP"),
    "api/problems.py": ("tests/api/test_bad_input.py", "the shape of each refusal"),
    "api/queues.py": ("tests/api/test_lists.py", "a route, tested over HTTP"),
    "api/routers.py": ("tests/api/test_openapi.py", "how every route is made"),
    "api/services.py": ("tests/api/serving.py", "what the tests hand to the application"),
    "api/topology.py": ("tests/api/test_lists.py", "routes, tested over HTTP"),
    "api/workers.py": ("tests/api/test_lists.py", "a route, tested over HTTP"),
    "embedded/directory.py": ("tests/embedded/test_cluster.py", "the cluster's directory, tested as one"),
    "embedded/initdb.py": ("tests/embedded/test_cluster.py", "how a cluster is made, tested by one"),
    "embedded/lock.py": ("tests/embedded/test_refusals.py", "the second cluster in a directory is refused"),
    "embedded/processes.py": ("tests/embedded/test_users.py", "how programs are started as another user"),
    "protocol/version.py": ("tests/sdk/test_worker.py", "a number in a header"),
    "services/endings.py": ("tests/services/test_completer.py", "what a report becomes is seen in the rows"),
    "services/arming.py": ("tests/services/test_catalog*.py", "a part of the catalog: what a change does to timers"),
    "services/catching_up.py": ("tests/services/test_catalog_pause.py", "a part of the catalog: resume"),
    "services/creation.py": ("tests/services/test_catalog_batch.py", "a part of the catalog: create"),
    "services/deletion.py": ("tests/services/test_catalog*.py", "a part of the catalog: delete"),
    "services/edits.py": ("tests/services/test_catalog_edits.py", "a part of the catalog: change"),
    "services/holding.py": ("tests/services/test_catalog*.py", "a part of the catalog: what a change holds"),
    "services/job_views.py": ("tests/services/test_catalog*.py", "a part of the catalog: what is shown"),
    "services/overdue.py": ("tests/services/test_catalog*.py", "a part of the catalog: late ticks at a change"),
    "services/pausing.py": ("tests/services/test_catalog_pause.py", "a part of the catalog: pause and resume"),
    "testing/clock.py": ("tests/testing/test_testing.py", "one suite for the whole kit"),
    "testing/factories.py": ("tests/testing/test_testing.py", "one suite for the whole kit"),
    "testing/inline.py": ("tests/testing/test_testing.py", "one suite for the whole kit"),
    "testing/outbox.py": ("tests/testing/test_testing.py", "one suite for the whole kit"),
    "domain/lease.py": ("tests/services/test_reaper.py", "by the duty that lets them lapse"),
    "domain/outcome.py": ("tests/services/test_completer.py", "by the duty that carries the decision out"),
    "domain/ready_set.py": ("tests/services/test_releaser.py", "by the duties that move runs through it"),
    "domain/wheel.py": ("tests/services/test_releaser.py", "by the instants that it gives back"),
    "embedded/trampoline.py": ("tests/embedded/test_crash.py", "what ends a server whose launcher was killed"),
    "server.py": ("tests/cli/test_serve.py", "the wiring of a node, tested by one"),
    "protocol/peer_messages.py": ("tests/gateway/test_peer_calls.py", "the wire between nodes, tested by nodes"),
    "services/cluster.py": ("tests/gateway/test_peer_calls.py", "a node among others, tested by several"),
    "services/cluster_view.py": ("tests/gateway/test_peer_calls.py", "what is seen of the memory of several nodes"),
    "services/forwarding.py": ("tests/gateway/test_peer_calls.py", "from one node to another, tested by two"),
    "services/peers.py": ("tests/gateway/test_peer_calls.py", "one side of the wire between nodes"),
    "services/routed_pokes.py": ("tests/gateway/test_peer_calls.py", "from one node to another, tested by two"),
    "services/routes.py": ("tests/gateway/test_peer_calls.py", "from one node to another, tested by two"),
    "services/control_plane.py": ("tests/lives/test_lives.py", "the duties put together, tested by a life"),
    "services/leader.py": ("tests/services/test_*.py", "the memory that every duty is tested with"),
    "services/live_view.py": ("tests/services/test_inspector.py", "what of memory is shown"),
    "services/loop.py": ("tests/cluster/test_server_killed.py", "it carries every duty through faults"),
    "services/pokes.py": ("tests/services/test_catalog*.py", "what the catalog tells the leader"),
    "services/registry.py": ("tests/cli/test_workers.py", "the list of workers of a real node"),
    "services/tally.py": ("tests/services/test_completer.py", "by the attempts that end"),
    "services/watch.py": ("tests/rules/test_statements.py", "two figures, read by a statement each"),
    "cli/node_process.py": ("tests/cluster/test_processes.py", "one of several nodes, as a process"),
    "cli/db_status.py": ("tests/cli/test_db.py", "what a command shows"),
    "store/moving.py": ("tests/services/test_mover.py", "statements, by the service that uses them"),
    "store/moving_changes.py": ("tests/services/test_mover.py", "statements, by the service that uses them"),
    "store/auditing.py": ("tests/services/test_auditor.py", "statements, by the service that uses them"),
    "store/api_keys.py": ("tests/services/test_keys.py", "statements, by the service that uses them"),
    "store/bulk.py": ("tests/store/test_jobs.py", "how rows are copied, against how they are inserted"),
    "store/inspect.py": ("tests/services/test_inspector.py", "statements, by the service that uses them"),
    "store/manual.py": ("tests/services/test_manual.py", "statements, by the service that uses them"),
    "sdk/backoff.py": ("tests/sdk/test_client.py", "by the repeats of a request"),
    "sdk/context.py": ("tests/sdk/test_worker.py", "by the handlers that use it"),
    "sdk/process_group.py": ("tests/sdk/test_processes.py", "by the children that must be killed"),
    "sdk/rest.py": ("tests/sdk/test_client.py", "every call of the client goes through it"),
    "sdk/attempt.py": ("tests/sdk/test_worker.py", "a part of the worker, tested as one of its attempts"),
    "sdk/claimer.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by what it asks for"),
    "sdk/deadlines.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by handlers that take too long"),
    "sdk/link.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by its calls"),
    "sdk/nodes.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by nodes that go away"),
    "sdk/outcome.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by what it reports"),
    "sdk/reporter.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by what it reports"),
    "sdk/starts.py": ("tests/sdk/test_worker.py", "a part of the worker, tested by leases that come early"),
    "sdk/child.py": ("tests/sdk/test_processes.py", "the other end of the same pipe"),
    "sdk/pipe.py": ("tests/sdk/test_processes.py", "the pipe between the two"),
}


@cache
def imported_by(test: Path) -> frozenset[str]:
    """The modules of Horarium that a test imports."""
    return frozenset(_imports(test))


def _imports(test: Path) -> Iterator[str]:
    for node in tree.nodes(test):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def folder_of(module: Path) -> Path:
    """Where the tests of a module stand."""
    return tree.TESTS / module.relative_to(tree.SOURCE).parent


def is_mirrored(module: Path) -> bool:
    """Whether a test in the module's folder bears its name or imports it."""
    tests = [path for path in tree.test_files() if path.parent == folder_of(module) and path.name.startswith("test_")]
    named = (f"test_{module.stem}.py", f"test_{module.stem}_")
    return any(test.name.startswith(named) or tree.module_name(module) in imported_by(test) for test in tests)


def test_every_module_has_its_tests() -> None:
    missing = {
        path.relative_to(tree.SOURCE).as_posix()
        for path in tree.source_files()
        if path.stem not in {"__init__", "__main__"} and not is_mirrored(path)
    }
    assert missing - set(ELSEWHERE) == set()


def test_the_tests_elsewhere_are_there() -> None:
    for module, (place, _) in ELSEWHERE.items():
        assert (tree.SOURCE / module).is_file(), module
        assert any(tree.ROOT.glob(place)), f"{module}: {place}"
