"""Every event that has a name is told by a duty, and every event that is counted is one."""

from __future__ import annotations

import ast

from horarium import events
from horarium.services import metrics
from tests.rules import tree


def named_outside_events() -> set[str]:
    """Members of `Name` that the sources mention outside `events.py` and the metrics."""
    bystanders = {"events.py", "metrics.py"}
    return {
        node.attr
        for path in tree.source_files()
        if path.name not in bystanders
        for node in tree.nodes(path)
        if isinstance(node, ast.Attribute) and tree.dotted(node.value) in {"Name", "events.Name"}
    }


def test_every_event_is_told_somewhere() -> None:
    assert {name.name for name in events.Name} - named_outside_events() == set()


def test_an_event_is_spelt_as_it_is_named() -> None:
    assert all(name.value == name.name.lower() for name in events.Name)


def test_every_fault_is_counted() -> None:
    loud = {name for name in events.Name if name in events._LOUD}
    assert loud - set(metrics.COUNTED) == set()


def test_every_event_and_every_metric_is_in_the_reference() -> None:
    page = (tree.DOCS / "reference" / "metrics.md").read_text("utf-8")
    assert [name.value for name in events.Name if f"`{name.value}`" not in page] == []
    assert [metric for metric, _ in metrics.COUNTED.values() if f"`{metric}_total`" not in page] == []
