"""Make the jobs of a manifest live: each is created, changed or left as it is, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from horarium import errors
from horarium.cli import client, options, output
from horarium.manifests import manifest

MASK = "***"


def apply(invocation: options.Invocation, server: client.Client, wanted: manifest.Manifest, dry_run: bool) -> int:
    """How many jobs were created or changed, or would be; each is told on stderr. Jobs of other owners are refused."""
    count = 0
    jobs = wanted.resolved()
    for job in output.tracked(jobs, "applying"):
        current = _find(server, job["name"])
        if current is not None:
            _check_owner(current, job)
        verb = _verb(current, job)
        count += verb != "unchanged"
        if verb != "unchanged" and not dry_run:
            server.request("PUT", _path(job["name"]), body=job)
        output.say(invocation, f"{'would be ' if dry_run and verb != 'unchanged' else ''}{verb:<9} {job['name']}")
    for name in _left_over(server, jobs):
        output.say(invocation, f"not here any more: {name} (`horarium jobs delete {name}` removes it)")
    return count


def _left_over(server: client.Client, jobs: Sequence[dict[str, Any]]) -> list[str]:
    """Names of jobs that the manifest owns and no longer holds."""
    owners = sorted({job["managed_by"] for job in jobs if job.get("managed_by")})
    owned = [job["name"] for owner in owners for job in server.pages("/v1/jobs", {"managed_by": owner})]
    return sorted({*owned} - {job["name"] for job in jobs})


def _verb(current: dict[str, Any] | None, job: dict[str, Any]) -> str:
    if current is None:
        return "created"
    # A retry policy is shown with all its defaults; the manifest names a few members.
    shown = {**current, "retry": {name: current["retry"].get(name) for name in job.get("retry") or {}}}
    return "unchanged" if all(_agrees(shown.get(member), value) for member, value in job.items()) else "changed"


def _agrees(current: Any, wanted: Any) -> bool:
    """Whether a job has what the manifest says. A secret is shown masked: it is taken to agree."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        return current.keys() == wanted.keys() and all(_agrees(current[name], wanted[name]) for name in wanted)
    return current in (wanted, MASK)


def _check_owner(current: dict[str, Any], job: dict[str, Any]) -> None:
    owner, mine = current.get("managed_by"), job.get("managed_by")
    if owner != mine:
        described = f"managed by {owner}" if owner else "made by hand"
        raise errors.ConflictError(
            f"A job {job['name']} exists and is {described}; rename it, or import with --prefix."
        )


def _find(server: client.Client, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = server.get(_path(name))
    except errors.RequestError as error:
        if error.status == 404:
            return None
        raise
    return found


def _path(name: str) -> str:
    return f"/v1/jobs/{client.segment(f'name:{name}')}"
