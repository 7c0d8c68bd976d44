"""Targets: each kind looked at in full, secrets kept from view."""

from __future__ import annotations

from typing import Any

import pytest

from horarium import errors
from horarium.domain import job_target
from horarium.domain.job_fields import Faults


def read(target: Any) -> Any:
    faults = Faults()
    found = job_target.read(target, "/target", faults)
    faults.raise_all()
    return found


def pointers(target: Any) -> list[str]:
    with pytest.raises(errors.InvalidError) as raised:
        read(target)
    return [fault.pointer for fault in raised.value.faults]


def http(**members: Any) -> dict[str, Any]:
    return {"http": {"url": "https://example.com/hook", **members}}


def command(**members: Any) -> dict[str, Any]:
    return {"command": {"argv": ["/usr/bin/true"], **members}}


@pytest.mark.parametrize(
    "target",
    [
        {"handler": "billing.run"},
        {"handler": "отчёт/день:1-a_b"},
        {"handler": "x" * 200},
        http(),
        http(method="PUT", headers={"X-Team": "b", "Authorization": "Bearer t"}, secret="s", retry_on=[404, 409]),
        http(url="http://[::1]:8080/a?b=c#d", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        command(),
        command(argv=["tar", "", "é"], env={"LANG": "C", "_x1": ""}, cwd="/srv", stdin="two\nlines"),
    ],
)
def test_good_targets_are_taken_as_they_are(target: dict[str, Any]) -> None:
    assert read(target) == target


def test_members_that_are_null_are_left_out() -> None:
    assert read({"handler": None, **http(headers=None, secret=None)}) == http()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({}, ["/target"]),
        ({"handler": "a", **http()}, ["/target"]),
        ({"handler": None}, ["/target"]),
        ("billing.run", ["/target"]),
        ([], ["/target"]),
        (5, ["/target"]),
        ({"handlr": "a"}, ["/target/handlr", "/target"]),
        ({"handler": ""}, ["/target/handler"]),
        ({"handler": "@http"}, ["/target/handler"]),
        ({"handler": "a b"}, ["/target/handler"]),
        ({"handler": "a\n"}, ["/target/handler"]),
        ({"handler": "x" * 201}, ["/target/handler"]),
        ({"handler": 5}, ["/target/handler"]),
        ({"http": "https://example.com"}, ["/target/http"]),
        ({"http": {}}, ["/target/http/url"]),
        (http(url="ftp://example.com"), ["/target/http/url"]),
        (http(url="https://"), ["/target/http/url"]),
        (http(url="//example.com"), ["/target/http/url"]),
        (http(url="javascript:alert(1)"), ["/target/http/url"]),
        (http(url="https://exa mple.com"), ["/target/http/url"]),
        (http(url="https://example.com/\r\nX: y"), ["/target/http/url"]),
        (http(url="https://user:pass@example.com"), ["/target/http/url"]),
        (http(url="https://example.com:99999"), ["/target/http/url"]),
        (http(url="https://example.com:0"), ["/target/http/url"]),
        (http(url="https://[::1"), ["/target/http/url"]),
        (http(url="https://example.com/" + "x" * 2048), ["/target/http/url"]),
        (http(method="TRACE"), ["/target/http/method"]),
        (http(method="post"), ["/target/http/method"]),
        (http(headers=["a"]), ["/target/http/headers"]),
        (http(headers={"X-A": "b\r\nX-Evil: 1"}), ["/target/http/headers/X-A"]),
        (http(headers={"X-A": "b\x00"}), ["/target/http/headers/X-A"]),
        (http(headers={"X-A": "ключ"}), ["/target/http/headers/X-A"]),
        (http(headers={"X-A": 5}), ["/target/http/headers/X-A"]),
        (http(headers={"X A": "b"}), ["/target/http/headers/X A"]),
        (http(headers={"": "b"}), ["/target/http/headers/"]),
        (http(headers={"Host": "b"}), ["/target/http/headers/Host"]),
        (http(headers={"horarium-attempt": "9"}), ["/target/http/headers/horarium-attempt"]),
        (http(headers={"Webhook-Id": "9"}), ["/target/http/headers/Webhook-Id"]),
        (http(headers={f"X-{n}": "" for n in range(51)}), ["/target/http/headers"]),
        (http(secret=""), ["/target/http/secret"]),
        (http(secret="a\nb"), ["/target/http/secret"]),
        (http(secret="whsec_%%%"), ["/target/http/secret"]),
        (http(retry_on=[200, "404", True]), ["/target/http/retry_on/0", "/target/http/retry_on/1", "/target/http/retry_on/2"]),
        (http(retry_on=404), ["/target/http/retry_on"]),
        (http(hedders={}), ["/target/http/hedders"]),
        ({"command": {}}, ["/target/command/argv"]),
        (command(argv=[]), ["/target/command/argv"]),
        (command(argv="rm -rf /"), ["/target/command/argv", "/target/command/argv"]),
        (command(argv=[""]), ["/target/command/argv/0"]),
        (command(argv=["a", "b\0", 5]), ["/target/command/argv/1", "/target/command/argv/2"]),
        (command(argv=["a"] * 257), ["/target/command/argv"]),
        (command(env={"A=B": "x"}), ["/target/command/env/A=B"]),
        (command(env={"1A": "x"}), ["/target/command/env/1A"]),
        (command(env={"A": 5}), ["/target/command/env/A"]),
        (command(env=[]), ["/target/command/env"]),
        (command(cwd="relative"), ["/target/command/cwd"]),
        (command(cwd="/a\0"), ["/target/command/cwd"]),
        (command(stdin=5), ["/target/command/stdin"]),
        (command(shell=True), ["/target/command/shell"]),
    ],
)  # fmt: skip
def test_faulty_targets_are_refused_where_they_are_faulty(target: Any, expected: list[str]) -> None:
    assert pointers(target) == expected


@pytest.mark.parametrize("kind", ["kafka", "redis", "nats", "amqp", "sqs"])
def test_targets_of_later_versions_are_refused_as_such(kind: str) -> None:
    with pytest.raises(errors.InvalidError, match="not in this version") as raised:
        read({kind: {"topic": "x"}})
    assert [(fault.pointer, fault.code) for fault in raised.value.faults] == [
        (f"/target/{kind}", "not_in_this_version")
    ]


SECRET = {
    "http": {
        "url": "https://example.com",
        "secret": "s3cret",
        "headers": {"Authorization": "Bearer t", "X-Api-Key": "k", "X-Team": "open", "Cookie": "c"},
    }
}


def test_secrets_are_shown_as_a_mask() -> None:
    shown = job_target.masked(SECRET)
    assert shown["http"]["secret"] == "***"
    assert shown["http"]["headers"] == {"Authorization": "***", "X-Api-Key": "***", "X-Team": "open", "Cookie": "***"}
    assert SECRET["http"]["secret"] == "s3cret"
    env = job_target.masked(command(env={"DB_PASSWORD": "p", "LANG": "C"}))["command"]["env"]
    assert env == {"DB_PASSWORD": "***", "LANG": "C"}
    assert job_target.masked({"handler": "h"}) == {"handler": "h"}


def test_a_mask_stands_for_the_secret_that_is_held() -> None:
    shown = job_target.masked(SECRET)
    assert job_target.unmask(shown, SECRET) == SECRET
    partly = {"http": {**shown["http"], "secret": "new"}}
    assert job_target.unmask(partly, SECRET)["http"]["secret"] == "new"
    assert job_target.unmask({"handler": "h"}, SECRET) == {"handler": "h"}


@pytest.mark.parametrize("held", [None, {"handler": "h"}, {"http": {"url": "https://example.com"}}])
def test_a_mask_without_a_secret_is_refused(held: dict[str, Any] | None) -> None:
    with pytest.raises(errors.InvalidError) as raised:
        job_target.unmask(job_target.masked(SECRET), held)
    assert {fault.pointer for fault in raised.value.faults} == {
        "/target/http/secret",
        "/target/http/headers/Authorization",
        "/target/http/headers/X-Api-Key",
        "/target/http/headers/Cookie",
    }


def test_an_innocent_value_may_be_three_stars() -> None:
    assert job_target.unmask(http(headers={"X-Team": "***"}), None) == http(headers={"X-Team": "***"})
