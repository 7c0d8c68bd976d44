"""The tree drawn at the top of `errors.py` is the tree of the classes, and each has a title and is raised somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from horarium import errors
from tests.rules import tree

INDENT = 4

# Errors that stand beside the one place that raises them, and why they are not in the tree.
ELSEWHERE = {
    "horarium.cli.waiting.NotFinishedError": "an ending of one command",
    "horarium.sdk.outcome.RemoteError": "an error of another process, unpacked by the same file",
    "horarium.sdk.signature.MismatchError": "an InvalidError, told apart by the executor: a mismatch is a dead letter",
    "horarium.sdk.worker.UnknownHandlerError": "an ending of one attempt",
    "horarium.store.inspect.TooSlowError": "between the store and the inspector alone",
}

# Errors that nothing raises yet, and why they are in the tree.
NOT_RAISED = {"OverLimitError": "429 is part of the wire, so that clients wait before there are quotas"}


def drawn() -> dict[str, str]:
    """Class and parent, read off the drawing. A line without a class, such as `client side`, is a caption."""
    parents: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^(?P<rails>[ │├└─]*)(?P<class>[A-Z]\w*Error)\b", line)
        caption = re.match(r"^(?P<rails>[ │├└─]+)(?P<text>[a-z]+ side)$", line)
        if match is None and caption is None:
            continue
        depth = len((match or caption)["rails"]) // INDENT - 1  # type: ignore[index]  # one of the two matched
        del path[depth:]
        owner = path[-1] if path else ""
        path.append(match["class"] if match else owner)
        if match:
            parents[match["class"]] = owner
    return parents


def classes() -> Iterator[type[errors.HorariumError]]:
    """Every error class, from the root."""
    pending = [errors.HorariumError]
    while pending:
        here = pending.pop()
        yield here
        pending += [child for child in here.__subclasses__() if child.__module__ == errors.__name__]


def test_the_drawing_is_the_tree() -> None:
    assert drawn() == {
        kind.__name__: "" if kind is errors.HorariumError else kind.__mro__[1].__name__ for kind in classes()
    }


def test_every_error_has_a_sentence_and_a_title_of_its_own() -> None:
    titles = [kind.__dict__.get("title") for kind in classes()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert all(kind.__doc__ for kind in classes())


def test_error_classes_elsewhere_are_few_and_known() -> None:
    names = {kind.__name__ for kind in classes()} | {"Exception"}
    found = {
        f"{tree.module_name(path)}.{node.name}"
        for path in tree.source_files()
        if path.name != "errors.py"
        for node in tree.nodes(path)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        if {tree.dotted(base).removeprefix("errors.") for base in node.bases} & names
    }
    assert found == set(ELSEWHERE)


def test_every_error_is_raised_somewhere() -> None:
    used = {
        node.func.attr
        for path in tree.source_files()
        for node in tree.nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if tree.dotted(node.func.value) == "errors"
    }
    named = {
        tree.dotted(node.exc).removeprefix("errors.")
        for path in tree.source_files()
        for node in tree.nodes(path)
        if isinstance(node, ast.Raise) and node.exc is not None and not isinstance(node.exc, ast.Call)
    }
    idle = {kind.__name__ for kind in classes() if kind is not errors.HorariumError} - used - named
    assert idle == set(NOT_RAISED), "an error that nobody raises is no part of the interface"
