from __future__ import annotations

import socket
from typing import Any

import pytest

from horarium import errors
from horarium.cli.client import Client, segment
from tests.cli.conftest import Reply, Request, Server


def test_the_key_goes_along_and_the_answer_comes_back(server: Server) -> None:
    server.on("POST", "/v1/x", Reply(201, {"id": 1}))
    answer = Client([server.url], "hrm_key").request(
        "POST", "/v1/x", query={"a": 1, "b": None, "c": True}, body={"x": "ü"}
    )
    assert (answer.status, answer.body) == (201, {"id": 1})
    (request,) = server.requests
    assert request.headers["Authorization"] == "Bearer hrm_key"
    assert request.headers["Content-Type"] == "application/json"
    assert request.query == {"a": ["1"], "c": ["true"]}
    assert request.json == {"x": "ü"}


def test_text_is_sent_as_it_is(server: Server) -> None:
    server.on("POST", "/v1/x", Reply(200, {}))
    Client([server.url], "").post("/v1/x", '{"n": 1.10}')
    assert server.requests[0].body == b'{"n": 1.10}'
    assert "Authorization" not in server.requests[0].headers


def test_no_content_is_none(server: Server) -> None:
    server.on("DELETE", "/v1/x", Reply(204))
    assert Client([server.url], "").request("DELETE", "/v1/x").body is None


def test_a_refusal_carries_every_fault(server: Server) -> None:
    problem = {"title": "Invalid", "errors": [{"pointer": "/a", "detail": "x"}, {"pointer": "/b", "detail": "y"}]}
    server.on("POST", "/v1/x", Reply(422, problem, "application/problem+json"))
    with pytest.raises(errors.RequestError, match=r"Invalid\n  /a: x\n  /b: y") as caught:
        Client([server.url], "").post("/v1/x", {})
    assert caught.value.status == 422


def test_something_else_than_horarium_answers(server: Server) -> None:
    server.on("GET", "/v1/page", Reply(200, b"<html>", "text/html"))
    server.on("GET", "/v1/gone", Reply(502, b"<html>", "text/html"))
    server.on("GET", "/v1/list", Reply(500, ["odd"]))
    client = Client([server.url], "")
    with pytest.raises(errors.RequestError, match="is this a Horarium server"):
        client.get("/v1/page")
    with pytest.raises(errors.RequestError, match="502 Bad Gateway"):
        client.get("/v1/gone")
    with pytest.raises(errors.RequestError, match="500"):
        client.get("/v1/list")


def test_pages_are_followed_up_to_the_limit(server: Server) -> None:
    def page(request: Request) -> Reply:
        start = int(request.query.get("cursor", ["0"])[0])
        size = min(int(request.query["limit"][0]), 3)
        items = [{"n": n} for n in range(start, min(start + size, 7))]
        return Reply(200, {"items": items, "next_cursor": str(start + size) if start + size < 7 else None})

    server.on("GET", "/v1/things", page)
    client = Client([server.url], "")
    assert [item["n"] for item in client.pages("/v1/things", {"state": "dead"})] == list(range(7))
    assert all(request.query["state"] == ["dead"] for request in server.requests)
    assert [item["n"] for item in client.pages("/v1/things", limit=4)] == [0, 1, 2, 3]
    assert server.requests[-1].query["limit"] == ["1"]


def test_events_are_read_as_the_standard_says(server: Server) -> None:
    chunks = [
        b": hello\n\nevent: log\ndata: 1\n\n",
        b"data: a\ndata:b\nid: 7\n\n",
        b": still here\n\nevent: end\ndata: \xc3\xbc\r\n\r\ndata: cut",
    ]
    server.on("GET", "/v1/logs", Reply(200, chunks=chunks, content_type="text/event-stream"))
    found = list(Client([server.url], "").events("/v1/logs", {"follow": 1}))
    assert found == [("log", "1"), ("message", "a\nb"), ("end", "ü")]
    server.on("GET", "/v1/logs", Reply(403, {"title": "no"}))
    with pytest.raises(errors.RequestError, match="no"):
        list(Client([server.url], "").events("/v1/logs"))


def test_the_first_address_that_answers_is_used(server: Server) -> None:
    server.on("GET", "/base/v1/x", Reply(200, 1))
    client = Client([f"http://127.0.0.1:{closed_port()}", f"{server.url}/base"], "")
    assert client.get("/v1/x") == 1
    assert client.url == f"{server.url}/base"


@pytest.mark.parametrize(
    ("url", "reason"), [("http://127.0.0.1:{}", "connection refused"), ("https://127.0.0.1:{}", "connection refused")]
)
def test_nobody_answers(url: str, reason: str) -> None:
    with pytest.raises(errors.UnreachableError, match=f"{reason}.*horarium dev"):
        Client([url.format(closed_port())], "").get("/v1/x")


def test_an_answer_that_does_not_come(server: Server) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        client = Client([f"http://127.0.0.1:{listener.getsockname()[1]}"], "", timeout_s=0.05)
        with pytest.raises(errors.UnreachableError, match="no answer in time"):
            client.get("/v1/x")


def test_tls_to_a_server_without(server: Server) -> None:
    with pytest.raises(errors.UnreachableError, match="TLS"):
        Client([server.url.replace("http", "https")], "").get("/v1/x")


def test_a_name_is_one_segment_of_the_path() -> None:
    assert segment("name:a/b c%ü") == "name%3Aa%2Fb%20c%25%C3%BC"


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: Any = taken.getsockname()[1]
        return int(port)
