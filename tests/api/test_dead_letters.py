"""`/v1/dead-letters` over real HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Api


async def listed(api: Api, query: str = "") -> list[str]:
    answer = await api("GET", f"/v1/dead-letters?{query}", role="viewer")
    assert answer.status == 200, answer.raw
    return [letter["run_id"] for letter in answer.body["items"]]


async def test_dead_letters_are_listed_in_pages(api: Api) -> None:
    job = await api.job(name="a")
    made = [str(await api.dead_letter(job["id"], -minutes)) for minutes in range(3)]
    first = (await api("GET", "/v1/dead-letters?limit=2")).body
    rest = (await api("GET", f"/v1/dead-letters?limit=2&cursor={first['next_cursor']}")).body
    assert [letter["run_id"] for letter in first["items"] + rest["items"]] == made
    letter = first["items"][0]
    assert (letter["job_name"], letter["error"], letter["attempts"]) == ("a", "ValueError: boom", 4)


async def test_dead_letters_are_filtered_and_grouped(api: Api) -> None:
    one, two = await api.job(name="one"), await api.job(name="two")
    letters = [str(await api.dead_letter(one["id"], -minutes)) for minutes in range(2)]
    other = str(await api.dead_letter(two["id"], -9, "KeyError: x"))
    assert await listed(api, "job=one") == letters
    assert await listed(api, "error=keyerror") == [other]
    fingerprint = (await api("GET", "/v1/dead-letters?job=two")).body["items"][0]["fingerprint"]
    assert await listed(api, f"fingerprint={fingerprint}") == [other]
    groups = (await api("GET", "/v1/dead-letters?group=1")).body
    assert [(group["job_name"], group["count"]) for group in groups["items"]] == [("one", 2), ("two", 1)]
    assert groups["next_cursor"] is None
    assert (await api("GET", "/v1/dead-letters?job=three")).status == 404


async def test_dead_letters_are_retried_by_id(api: Api) -> None:
    job = await api.job(name="a")
    one, two = [str(await api.dead_letter(job["id"], -minutes)) for minutes in range(2)]
    answer = await api("POST", "/v1/dead-letters:retry", {"run_ids": [one]}, role="operator")
    assert (answer.status, answer.body) == (200, {"retried": 1, "more": False})
    assert await listed(api) == [two]
    again = (await api("GET", "/v1/jobs/name:a/runs?state=queued")).body["items"]
    assert [run["rerun_of"] for run in again] == [one]


async def test_dead_letters_are_discarded_by_filter(api: Api) -> None:
    one, two = await api.job(name="one"), await api.job(name="two")
    for minutes in range(2):
        await api.dead_letter(one["id"], -minutes)
    kept = str(await api.dead_letter(two["id"], -9))
    answer = await api("POST", "/v1/dead-letters:discard", {"filter": {"job": "one"}}, role="operator")
    assert answer.body == {"discarded": 2, "more": False}
    assert await listed(api) == [kept]
    assert (await api("GET", f"/v1/runs/{kept}")).body["state"] == "dead"
    assert (await api("POST", "/v1/dead-letters:discard", {"filter": {}})).body["discarded"] == 1


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {""}),
        ({"run_ids": [], "filter": {}}, {""}),
        ({"run_ids": ["x", 7]}, {"/run_ids/0", "/run_ids/1"}),
        ({"run_ids": "all"}, {"/run_ids"}),
        ({"filter": {"jbo": "a"}}, {"/filter/jbo"}),
        ({"filter": {"since": "yesterday"}}, {"/filter/since"}),
        ({"filter": {"queue": "a\0"}}, {"/filter/queue"}),
        ({"filter": 1}, {"/filter"}),
        ({"all": True}, {"/all"}),
    ],
)
async def test_a_selection_that_selects_nothing_clear_is_refused(api: Api, body: Any, pointers: set[str]) -> None:
    for verb in ("retry", "discard"):
        refused = await api("POST", f"/v1/dead-letters:{verb}", body)
        assert (refused.status, set(refused.faults)) == (422, pointers)
