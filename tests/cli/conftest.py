"""A server that answers what a test tells it to, and the command line pointed at it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result

from horarium.cli import main
from tests import databases
from tests.cli import node as nodes


@dataclass
class Request:
    """What arrived."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """What goes back. `chunks` are sent one by one instead of `body`."""

    status: int = 200
    body: Any = None
    content_type: str = "application/json"
    chunks: list[bytes] | None = None


@dataclass
class Server:
    """Answers by (method, path); a callable is asked with the request, a list is used up from the front."""

    url: str
    replies: dict[tuple[str, str], Any] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def on(self, method: str, path: str, *replies: Reply | Callable[[Request], Reply]) -> None:
        self.replies[method, path] = list(replies)

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        waiting = self.replies.get((request.method, request.path))
        if not waiting:
            return Reply(404, {"title": "Not found", "detail": f"no {request.path}"}, "application/problem+json")
        chosen = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        found: Reply = chosen(request) if callable(chosen) else chosen
        return found


@pytest.fixture
def server() -> Iterator[Server]:
    """A server on a free port of the loopback interface."""
    state = Server("")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, parts.path, parse_qs(parts.query), dict(self.headers), body)
            reply = state.reply(request)
            content = b"".join(reply.chunks) if reply.chunks is not None else self.encode(reply.body)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            if reply.chunks is None:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        @staticmethod
        def encode(body: Any) -> bytes:
            if body is None:
                return b""
            return body if isinstance(body, bytes) else json.dumps(body).encode()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815 - the standard library's names

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{listening.server_address[1]}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("URL", "API_KEY", "API_KEY_FILE", "CONFIG", "DATABASE_URL", "PORT"):
        monkeypatch.delenv(f"HORARIUM_{name}", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HORARIUM_PROFILE", str(tmp_path / "profile.toml"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Run `horarium` in this process."""

    def run(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main.cli, arguments, input=stdin, prog_name="horarium")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def call(server: Server, cli: Callable[..., Result]) -> Callable[..., Result]:
    """Run `horarium` against the server."""

    def run(*arguments: str, stdin: str | None = None) -> Result:
        return cli("--url", server.url, *arguments, stdin=stdin)

    return run


@pytest.fixture(scope="session")
def node(databases_of_run: databases.Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[nodes.Node]:
    """A node with a worker, as processes of their own."""
    url = databases_of_run.create_database()
    with nodes.running(url, tmp_path_factory.mktemp("node")) as running:
        yield running
    databases_of_run.drop_database(url)


@pytest.fixture
def connected(node: nodes.Node, monkeypatch: pytest.MonkeyPatch) -> nodes.Node:
    """The node, with the environment pointing at it."""
    for name, value in node.environment.items():
        monkeypatch.setenv(name, value)
    return node


@pytest.fixture
def ok(cli: Callable[..., Result], connected: nodes.Node) -> Callable[..., str]:
    """Run a command against the node that must succeed; what it prints on stdout."""

    def run(*arguments: str, stdin: str | None = None) -> str:
        result = cli(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A job's name that no other test uses."""
    return f"t.{request.node.name}/ü"
