"""Read jobs from a file: one job, a list of jobs, or a manifest; JSON or YAML.

What a job may say is the server's to judge; here the frame is checked, with every fault of it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from horarium import errors
from horarium.manifests import manifest, yaml_text

_MEMBERS = ("apiVersion", "manifest", "defaults", "jobs")


def read_jobs(text: str) -> list[tuple[dict[str, Any], str | None]]:
    """Each job of a file as (members, payload): the payload as JSON text, or None when the job has none.

    In a JSON file that holds one job the payload is kept digit for digit.
    """
    value = _load(text)
    if isinstance(value, dict) and "jobs" in value:
        return [_apart(job) for job in to_manifest(value).resolved()]
    jobs = value if isinstance(value, list) else [value]
    faults = [
        errors.Fault(f"/{index}", "a job is an object") for index, job in enumerate(jobs) if type(job) is not dict
    ]
    if faults:
        raise errors.InvalidError(faults)
    if isinstance(value, dict) and "payload" in value and (raw := _raw_payload(text)) is not None:
        return [({name: member for name, member in value.items() if name != "payload"}, raw)]
    return [_apart(job) for job in jobs]


def read(text: str) -> manifest.Manifest:
    """The manifest of a file. InvalidError names every fault of its frame."""
    return to_manifest(_load(text))


def to_manifest(value: object) -> manifest.Manifest:
    """A manifest from the value of a file. InvalidError names every fault of its frame."""
    if not isinstance(value, dict):
        raise errors.InvalidError([errors.Fault("", "a manifest is an object with apiVersion, manifest and jobs")])
    faults = list(_faults(value))
    if faults:
        raise errors.InvalidError(faults)
    return manifest.Manifest(value["manifest"], value["jobs"], value.get("defaults") or {})


def _load(text: str) -> Any:
    try:
        return json.loads(text) if text.lstrip()[:1] in {"{", "["} else yaml_text.load(text)
    except ValueError as json_error:
        try:
            return yaml_text.load(text)  # YAML in flow style begins like JSON
        except ValueError:
            raise errors.InvalidError([errors.Fault("", str(json_error), "syntax")]) from None


def _faults(value: dict[str, Any]) -> Iterator[errors.Fault]:
    for member in value:
        if member not in _MEMBERS:
            guess = difflib.get_close_matches(str(member), _MEMBERS, n=1)
            hint = f"; did you mean {guess[0]}?" if guess else ""
            yield errors.Fault(f"/{member}", f"no such member{hint}", "unknown_member")
    if value.get("apiVersion") != manifest.API_VERSION:
        yield errors.Fault("/apiVersion", f"must be {manifest.API_VERSION}")
    if not isinstance(value.get("manifest"), str) or not value["manifest"]:
        yield errors.Fault("/manifest", "must be the name of the manifest")
    if not isinstance(value.get("defaults") or {}, dict):
        yield errors.Fault("/defaults", "must be an object")
    jobs = value.get("jobs")
    if isinstance(jobs, list):
        yield from _job_faults(jobs)
    else:
        yield errors.Fault("/jobs", "must be a list of jobs")


def _job_faults(jobs: list[Any]) -> Iterator[errors.Fault]:
    first: dict[str, int] = {}
    for index, job in enumerate(jobs):
        name = job.get("name") if isinstance(job, dict) else None
        if not isinstance(job, dict):
            yield errors.Fault(f"/jobs/{index}", "a job is an object")
        elif not isinstance(name, str) or not name:
            yield errors.Fault(f"/jobs/{index}/name", "a job of a manifest needs a name")
        elif first.setdefault(name, index) != index:
            yield errors.Fault(f"/jobs/{index}/name", f"{name!r} is the name of job {first[name]}, too")


def _apart(job: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    members = {name: member for name, member in job.items() if name != "payload"}
    return members, json.dumps(job["payload"], ensure_ascii=False) if "payload" in job else None


def _raw_payload(text: str) -> str | None:
    try:
        return bytes(msgspec.json.decode(text, type=dict[str, msgspec.Raw])["payload"]).decode()
    except msgspec.DecodeError:  # YAML in flow style
        return None
