"""What `horarium` offers is a list: tested, typed, described."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator

import pytest

import horarium
from tests.rules import tree

PUBLIC = [
    "Context",
    "Discard",
    "Enqueued",
    "Handler",
    "Horarium",
    "HorariumError",
    "LeaseLostError",
    "Retry",
    "Snooze",
    "__version__",
]


def test_the_list_is_the_list() -> None:
    assert sorted(horarium.__all__) == PUBLIC


def test_nothing_else_can_be_had() -> None:
    with pytest.raises(AttributeError):
        _ = horarium.Dispatcher
    assert set(PUBLIC) <= set(dir(horarium))


def test_the_package_says_that_it_is_typed() -> None:
    assert (tree.SOURCE / "py.typed").is_file()


def test_a_user_can_name_them_under_strict_types() -> None:
    program = f"from horarium import {', '.join(name for name in PUBLIC if name != '__version__')}\n"
    program += "h: Horarium = Horarium()\nreveal_type(h)\n"
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.mypy_cache/users", "-c", program],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout
    assert 'Revealed type is "horarium.sdk.client.Horarium"' in completed.stdout


def members() -> Iterator[tuple[str, object]]:
    """Every public class and function, and every public method of the classes."""
    for name in PUBLIC:
        value = getattr(horarium, name)
        if not callable(value):
            continue
        yield name, value
        for member, attribute in vars(value).items():
            plain = attribute.fget if isinstance(attribute, property) else attribute
            if inspect.isfunction(plain) and not member.startswith("_"):
                yield f"{name}.{member}", plain


@pytest.mark.parametrize(("name", "value"), [pytest.param(*pair, id=pair[0]) for pair in members()])
def test_a_public_name_is_described_and_typed(name: str, value: object) -> None:
    assert inspect.getdoc(value), name
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        bare = [
            parameter.name
            for parameter in list(signature.parameters.values())[1:]
            if parameter.annotation is inspect.Parameter.empty
        ]
        assert bare == [], name
        assert signature.return_annotation is not inspect.Signature.empty, name


def test_the_homes_are_where_the_type_checker_looks() -> None:
    for name, home in typing.cast("dict[str, str]", vars(horarium)["_HOMES"]).items():
        assert f"from {home} import {name} as {name}" in (tree.SOURCE / "__init__.py").read_text("utf-8")
