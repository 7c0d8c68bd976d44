"""What the pages say is so: links lead somewhere, commands exist, examples run, lists are complete."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
import click
import msgspec
import pytest
import yaml

import horarium
from horarium import config
from horarium.cli import main
from horarium.domain import job_parsing
from horarium.events import Events
from horarium.protocol import messages
from horarium.services import control_plane, metrics, registry
from horarium.store.database import Database
from tests.rules import pages, tree

# Files that a reader of the pages makes.
OF_A_READER = {"tour.py"}

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PLACE = re.compile(r"^[\w./*-]+/[\w.*-]+\.(py|sql|md|json|toml|txt)$")
EACH_PAGE = pytest.mark.parametrize("page", [pytest.param(page, id=tree.shown(page)) for page in pages.pages()])

# Words of a command that stand for something: NAME, $run, … and {a,b}.
PLACEHOLDER = re.compile(r"^(\$.*|[A-Z][A-Z_]*|.*….*|\[.*|.*\])$")
VARIABLE = r"\bHORARIUM_[A-Z_]+[A-Z]\b"
DOCS = (tree.ROOT / "README.md", tree.DOCS / "README.md")


@EACH_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in pages.links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_known = target.exists() and (not anchor or anchor in pages.anchors(target))
        if not is_known:
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached() -> None:
    reached, pending = set[Path](), [*DOCS]
    while pending:
        page = pending.pop()
        if page in reached:
            continue
        reached.add(page)
        found = [(page.parent / link.partition("#")[0]).resolve() for link in pages.links(page) if ":" not in link]
        pending += [target for target in found if target.suffix == ".md" and target.is_file()]
    assert [tree.shown(page) for page in pages.pages() if page not in reached] == []


@EACH_PAGE
def test_verbs_of_the_makefile_exist(page: Path) -> None:
    verbs = set(re.findall(r"^([a-z]+):", (tree.ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {words[0] for _, words in pages.commands(page, "make") if words}
    assert {word for word in named if word.isalpha()} - verbs == set()


@EACH_PAGE
def test_commands_exist(page: Path) -> None:
    faults = [
        f"{place}: {fault}"
        for place, words in pages.commands(page, "horarium")
        if (fault := fault_of(main.cli, words)) is not None
    ]
    assert faults == []


def fault_of(command: click.Command, words: list[str]) -> str | None:
    """What is wrong with a call: an unknown command or option; None when it is all right."""
    context = click.Context(command)
    known = {
        option: parameter for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and word != "-":
            option = known.get(word.partition("=")[0])
            if word in {"-h", "--help"}:
                continue
            if option is None:
                return f"{command.name} has no option {word}"
            if isinstance(option, click.Option) and not option.is_flag and "=" not in word:
                rest = rest[1:]
        elif isinstance(command, click.Group):
            if PLACEHOLDER.match(word):
                return None
            inner = [command.get_command(context, name) for name in word.split("|")]
            if None in inner:
                return f"{command.name} has no command {word}"
            return fault_of(inner[0], rest) if inner[0] is not None else None
    return None


@EACH_PAGE
def test_variables_exist(page: Path) -> None:
    named = set(re.findall(VARIABLE, page.read_text("utf-8")))
    settings = {f"HORARIUM_{name.upper()}" for name in config.Settings.model_fields}
    assert named - settings - variables_of_the_code() == set()


@cache
def variables_of_the_code() -> frozenset[str]:
    """The variables that sources and tests name."""
    files = (*tree.source_files(), *tree.test_files())
    return frozenset(name for path in files for name in re.findall(VARIABLE, path.read_text("utf-8")))


@EACH_PAGE
def test_files_that_are_named_exist(page: Path) -> None:
    roots = (tree.ROOT, tree.SOURCE, page.parent)
    named = {span for span in pages.spans(page) if PLACE.match(span) and "NNNN" not in span}
    missing = {
        name for name in named if not name.startswith(("app/", "/")) and not any(any(root.glob(name)) for root in roots)
    }
    assert missing == set()


@EACH_PAGE
def test_python_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples are carried out as far as they go without a server: decorators check what they are given."""
    for name in [name for name in os.environ if name.startswith("HORARIUM_")]:
        monkeypatch.delenv(name)
    for block in pages.blocks(page, "python"):
        program = compile(block.text, block.place, "exec")
        if "from app" not in block.text:
            exec(program, {"__name__": "example"})


@EACH_PAGE
def test_json_and_yaml_can_be_read(page: Path) -> None:
    for block in pages.blocks(page, "json"):
        body = json.loads(block.text)
        if {"name", "target"} <= set(body):
            job_parsing.parse(body, now=NOW)
    for block in pages.blocks(page, "yaml"):
        yaml.safe_load(block.text)


async def test_sql_runs(database_url: str) -> None:
    """All examples in one transaction, which is given up."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("BEGIN; CREATE TABLE orders (id integer, total integer); CREATE ROLE app")
        for page in pages.pages():
            for block in pages.blocks(page, "sql"):
                await connection.execute(re.sub(r"^(BEGIN|COMMIT);$", "", block.text, flags=re.MULTILINE))
        await connection.execute("SET ROLE app; SELECT horarium.enqueue('email.welcome')")
    finally:
        await connection.close()


def structs() -> Iterator[type[msgspec.Struct]]:
    """The messages of the wire and what they are made of."""
    for value in vars(messages).values():
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value is not messages.Target:
            yield value


def test_the_worker_protocol_is_described() -> None:
    page = tree.DOCS / "reference" / "worker-protocol.md"
    told = page.read_text("utf-8")
    members = {name for struct in structs() for name in struct.__struct_encode_fields__}
    assert {name for name in members if f"`{name}`" not in told and f'"{name}"' not in told} == set()
    paths = {messages.LEASE_PATH, messages.HEARTBEAT_PATH, messages.REPORT_PATH, messages.STOP_PATH}
    assert {path for path in paths if f"`POST {path}`" not in told} == set()


def test_the_examples_of_the_worker_protocol_are_messages() -> None:
    page = tree.DOCS / "reference" / "worker-protocol.md"
    decoders: list[msgspec.json.Decoder[Any]] = [
        messages.lease_requests,
        messages.lease_responses,
        messages.heartbeat_requests,
        messages.heartbeat_responses,
        messages.report_requests,
        messages.report_requests,
        messages.report_responses,
    ]
    examples = list(pages.blocks(page, "json"))
    assert len(examples) == len(decoders)
    for decoder, example in zip(decoders, examples, strict=True):
        decoder.decode(example.text)


def test_every_route_is_listed() -> None:
    from horarium.api import app, openapi  # slow to import, and this test alone needs them

    described = openapi.document(app.routes())
    routes = {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods}
    page = (tree.DOCS / "reference" / "rest-api.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", page, re.MULTILINE))
    assert listed == routes | {"GET /openapi.json", "GET /docs"}


def test_every_metric_is_listed() -> None:
    node = registry.Node("here-1", None, "0.0.0", "here", 1)
    events = Events()
    plane = control_plane.ControlPlane(Database("postgresql://nowhere"), node, events, control_plane.Timing())
    rendered = metrics.Metrics("0.0.0", [plane], events).render().decode()
    emitted = set(re.findall(r"^# TYPE (horarium_\w+) ", rendered, re.MULTILINE))
    page = (tree.DOCS / "reference" / "metrics.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(horarium_\w+)` \|", page, re.MULTILINE)) == emitted


def test_every_public_name_is_in_a_guide() -> None:
    guides = "".join(path.read_text("utf-8") for path in (tree.DOCS / "guides").glob("*.md"))
    unsaid = [
        name for name in horarium.__all__ if name not in guides and name not in {"__version__", "Enqueued", "Handler"}
    ]
    assert unsaid == []


def test_decisions_are_numbered_and_whole() -> None:
    records = sorted((tree.DOCS / "decisions").glob("[0-9]*.md"))
    index = (tree.DOCS / "decisions" / "README.md").read_text("utf-8")
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text("utf-8")
        title = re.match(r"# (\d{4})\. (.+)\n", text)
        assert title is not None, record.name
        assert title[1] == record.name[:4]
        assert f"| [{title[1]}]({record.name}) | {title[2]} |" in index
        for part in ("Context", "Decision", "Consequences", "What would change our mind"):
            assert f"\n## {part}\n" in text, f"{record.name}: {part}"


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    told = (tree.DOCS / "decisions" / "0012-dependencies.md").read_text("utf-8")
    needed = {re.split(r"[<>=\[]", requirement)[0] for requirement in project["dependencies"]}
    assert set(re.findall(r"^\| ([\w-]+) \|", told, re.MULTILINE)) - {"package"} == needed
