"""Jobs declared by `@h.cron` and `@h.every`: written to the server when a worker starts.

They are managed by `sdk:<app>`. Jobs of that name that the code no longer declares are told in the log, and removed only
when that was asked for (`--prune`): an old worker of a rolling deployment must not remove what the new one declares.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from horarium import errors
from horarium.sdk import backoff, client, handlers

_log = logging.getLogger("horarium.worker")


async def register(application: client.Horarium, *, prune: bool = False) -> None:
    """Write all declared jobs, waiting for a server as long as it takes; what is refused is logged and left out.

    InvalidError when the arguments of a schedule do not fit its handler, before anything is sent.
    """
    bodies = declared(application)
    if not bodies and not prune:
        return
    wait = backoff.Backoff(cap_s=30.0)
    while True:
        try:
            for name, body in bodies.items():
                await _put(application, name, body)
            await _tell_orphans(application, bodies.keys(), prune)
            return
        except errors.UnreachableError as error:
            wait_s = wait.next_s()
            _log.warning("schedules are not registered yet; trying again in %.1f s: %s", wait_s, error)
            await asyncio.sleep(wait_s)


def declared(application: client.Horarium) -> dict[str, dict[str, Any]]:
    """The body of each job that the code declares, by name."""
    return {
        job.name: _body(handler, job, manager(application))
        for handler in application.handlers.values()
        for job in handler.schedules
    }


def manager(application: client.Horarium) -> str:
    """Who manages the jobs of this application."""
    return f"sdk:{application.app or 'app'}"


def _body(handler: handlers.Handler[..., Any], job: handlers.ScheduledJob, managed_by: str) -> dict[str, Any]:
    return handler.body(handler.signature.write(job.arguments), managed_by=managed_by, **job.members)


async def _put(application: client.Horarium, name: str, body: dict[str, Any]) -> None:
    try:
        await application.jobs.put(name, body)
    except errors.RequestError as error:
        _log.error("the job %s is not registered: %s", name, error)
    else:
        _log.info("the job %s is registered", name)


async def _tell_orphans(application: client.Horarium, known: Iterable[str], prune: bool) -> None:
    try:
        orphans = await _orphans(application, frozenset(known))
        for job in orphans:
            if prune:
                await application.jobs.delete(job["id"])
                _log.warning("the job %s is deleted: the code no longer declares it", job["name"])
            else:
                _log.warning("the job %s is no longer declared in the code; --prune would delete it", job["name"])
    except errors.RequestError as error:
        _log.warning("jobs that are no longer declared cannot be looked for: %s", error)


async def _orphans(application: client.Horarium, known: frozenset[str]) -> list[dict[str, Any]]:
    owner, cursor, found = manager(application), None, []
    while True:
        page = await application.jobs.list(managed_by=owner, limit=500, cursor=cursor)
        found += [job for job in page.items if job.get("managed_by") == owner and job.get("name") not in known]
        cursor = page.next_cursor
        if cursor is None:
            return found
