"""Jobs and runs as the REST interface has them: thin calls that return its JSON as dicts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from horarium.sdk import rest, spans

FINAL_STATES = frozenset({"succeeded", "dead", "cancelled", "skipped"})


class Page(NamedTuple):
    """Part of a list; `next_cursor` goes into the call for the next part, None at the end."""

    items: list[dict[str, Any]]
    next_cursor: str | None


class Jobs:
    """`h.jobs`: `ref` is a job's id, or `name:` and its name."""

    def __init__(self, api: rest.Rest) -> None:
        self._api = api

    async def get(self, ref: str) -> dict[str, Any]:
        """The job, with its next and last runs."""
        return _object((await self._api.request("GET", _job(ref))).body)

    async def list(self, *, cursor: str | None = None, limit: int = 100, **filters: str) -> Page:
        """Jobs, newest first; `filters` as in `GET /v1/jobs`: status, queue, tag, name, due_before."""
        return await _page(self._api, "/v1/jobs", cursor, limit, filters)

    async def put(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the job of this name, or make it as `body` says."""
        return _object((await self._api.request("PUT", _job(f"name:{name}"), body=body)).body)

    async def pause(self, ref: str, *, reason: str | None = None) -> None:
        """Hold it: runs that have not started wait for `resume`."""
        await self._api.request("POST", _job(ref) + "/pause", body={} if reason is None else {"reason": reason})

    async def resume(self, ref: str, *, catch_up: str | None = None) -> None:
        """Go on from now; `catch_up` is `run_once` or `run_all` for what fell into the pause."""
        await self._api.request("POST", _job(ref) + "/resume", body={} if catch_up is None else {"catch_up": catch_up})

    async def run(self, ref: str, payload: Any = None) -> dict[str, Any]:
        """Run it once now, beside its schedule, with another payload if one is given. The new run."""
        body = {} if payload is None else {"payload": payload}
        return _object((await self._api.request("POST", _job(ref) + "/run", body=body)).body)

    async def delete(self, ref: str) -> None:
        """Remove it, and the runs that have not started."""
        await self._api.request("DELETE", _job(ref))


class Runs:
    """`h.runs`."""

    def __init__(self, api: rest.Rest) -> None:
        self._api = api

    async def get(self, run_id: str) -> dict[str, Any]:
        """The run, with its attempts and the last lines of its log."""
        return _object((await self._api.request("GET", _run(run_id))).body)

    async def list(self, *, cursor: str | None = None, limit: int = 100, **filters: str) -> Page:
        """Runs, newest first; `filters` as in `GET /v1/runs`: state, job, queue, error, since."""
        return await _page(self._api, "/v1/runs", cursor, limit, filters)

    async def cancel(self, run_id: str) -> None:
        """Cancel it if it waits; ask its handler to stop if it runs."""
        await self._api.request("POST", _run(run_id) + "/cancel", body={})

    async def rerun(self, run_id: str) -> dict[str, Any]:
        """Run the same again, as a new run."""
        return _object((await self._api.request("POST", _run(run_id) + "/rerun", body={})).body)

    async def wait(self, run_id: str, *, timeout: spans.Duration | None = None) -> dict[str, Any]:
        """Wait until the run has ended, whichever way, and return it; TimeoutError when it has not within `timeout`."""
        until = None if timeout is None else time.monotonic() + spans.seconds(timeout)
        pause = 0.05
        while (found := await self.get(run_id))["state"] not in FINAL_STATES:
            left = pause if until is None else until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"run {run_id} is still {found['state']}")
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 1.5, 2.0)
        return found


async def _page(api: rest.Rest, path: str, cursor: str | None, limit: int, filters: Mapping[str, str]) -> Page:
    answer = await api.request("GET", path, query={"cursor": cursor, "limit": limit, **filters})
    found = _object(answer.body)
    return Page(found["items"], found.get("next_cursor"))


def _job(ref: str) -> str:
    return f"/v1/jobs/{quote(ref, safe=':')}"


def _run(run_id: str) -> str:
    return f"/v1/runs/{quote(run_id, safe='')}"


def _object(body: Any) -> dict[str, Any]:
    return body if isinstance(body, dict) else {}
