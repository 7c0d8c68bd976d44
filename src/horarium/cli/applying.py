"""Make the jobs of a manifest live: each is created, changed or left as it is, by name."""

from __future__ import annotations

from typing import Any

from horarium import errors
from horarium.cli import client, options, output
from horarium.manifests import manifest


def apply(invocation: options.Invocation, server: client.Client, wanted: manifest.Manifest, dry_run: bool) -> int:
    """How many jobs were created or changed, or would be; each is told on stderr. Jobs of other owners are refused."""
    count = 0
    for job in wanted.resolved():
        current = _find(server, job["name"])
        if current is not None:
            _check_owner(current, job)
        verb = _verb(current, job)
        count += verb != "unchanged"
        if verb != "unchanged" and not dry_run:
            server.request("PUT", _path(job["name"]), body=job)
        output.say(invocation, f"{'would be ' if dry_run and verb != 'unchanged' else ''}{verb:<9} {job['name']}")
    return count


def _verb(current: dict[str, Any] | None, job: dict[str, Any]) -> str:
    if current is None:
        return "created"
    return "changed" if any(not _agrees(current.get(member), value) for member, value in job.items()) else "unchanged"


def _agrees(current: Any, wanted: Any) -> bool:
    """Whether a job has what the manifest says. A secret is shown masked: it is taken to agree."""
    if isinstance(wanted, dict) and isinstance(current, dict):
        return all(_agrees(current.get(name), value) for name, value in wanted.items())
    return bool(current == wanted or current == "***")


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
