"""From a body to a JobSpec: every member is looked at, every fault is named at once, unknown members are refused.

    bytes ── read_body ──► members ── parse ──► JobSpec
                           members of a patch ── merge ──► JobSpec

`read_body` leaves the payload as raw JSON, so that it keeps its digits (rule N4); members may also come from YAML or
Python.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from horarium import errors
from horarium.domain import job, job_document, job_fields, job_payload, job_retry, job_target, job_timing
from horarium.domain.job_fields import Faults
from horarium.domain.misfire import Misfire
from horarium.domain.overlap import Overlap

MAX_BODY_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_BATCH = 10_000

MAX_NAME = 200
MAX_TAGS = 50
MAX_SPAN_S = 366 * 86_400

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECTS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_VALUE = msgspec.json.Decoder()
_SPACE = re.compile(r"[ \t\r\n]*")

# What people write who come from elsewhere, or send back what they were shown.
_HINTS = {
    "cron": "schedule",
    "cron_expression": "schedule",
    "expression": "schedule",
    "every": "interval_s",
    "interval": "interval_s",
    "interval_seconds": "interval_s",
    "delay": "run_in_s",
    "delay_s": "run_in_s",
    "in_s": "run_in_s",
    "at": "run_at",
    "scheduled_for": "run_at",
    "run_at_fold": "fold",
    "tz": "timezone",
    "time_zone": "timezone",
    "args": "payload",
    "data": "payload",
    "body": "payload",
    "handler": "target",
    "retries": "retry",
    "timeout": "timeout_s",
    "jitter": "jitter_s",
}
_READ_ONLY = frozenset(
    [
        "id",
        "status",
        "status_reason",
        "version",
        "next_run_at",
        "next_runs",
        "next_runs_local",
        "schedule_text",
        "warnings",
        "last_run",
        "created_at",
        "created_by",
        "updated_at",
        "updated_by",
        "deleted_at",
        "pause",
        "run_at_local",
        "anchor_at",
        "shard",
        "tenant",
        "tenant_id",
    ]
)
_LATER = ("after", "concurrency")

_OWN = ("name", "payload")  # what each job of a batch is likely to have for itself
_KINDS = 1_000  # how much of what the others may share is remembered
_FIELDS = tuple(field.name for field in dataclasses.fields(job.JobSpec))

_LABEL = job_fields.label(MAX_NAME)
_TAG = job_fields.label(100)
_WITHIN = {"within_s": job_fields.integer(1, MAX_SPAN_S)}


def read_body(raw: bytes | memoryview) -> dict[str, Any]:
    """The members of a body; its payload stays raw JSON.

    Raises TooLargeError over 1 MiB, and InvalidError for what is not a JSON object.
    """
    if len(raw) > MAX_BODY_BYTES:
        raise errors.TooLargeError(f"the body is larger than {MAX_BODY_BYTES // 1024} KiB")
    try:
        return _members(_OBJECT.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        return _read_slowly(bytes(raw))


def read_bodies(raw: bytes | memoryview) -> list[dict[str, Any] | errors.HorariumError]:
    """The bodies of a batch, a JSON list; an element that is no object becomes its error.

    Raises TooLargeError over 32 MiB or 10,000 elements, and InvalidError for what is not a list.
    """
    if len(raw) > MAX_BATCH_BYTES:
        raise errors.TooLargeError(f"the batch is larger than {MAX_BATCH_BYTES // 1024 // 1024} MiB")
    try:
        bodies = _OBJECTS.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _read_bodies_one_by_one(raw)
    _check_batch_size(len(bodies))
    known: dict[bytes, Any] = {}
    try:
        return [_members_alike(body, known) for body in bodies]
    except (msgspec.DecodeError, RecursionError):
        return _read_bodies_one_by_one(raw)


def parse(body: Mapping[str, Any], *, now: datetime, held: job.JobSpec | None = None) -> job.JobSpec:
    """The job that a body describes.

    `held` is what the job is now, where the body replaces it: a timing that the body leaves as it is, is not looked at
    anew, so a one-off whose time has passed can be sent again. Raises InvalidError with all faults, and TooLargeError
    for a payload over 256 KiB. Secrets may be `***` here; `job_target.unmask` puts them in.
    """
    faults = Faults()
    given = _read_members(body, faults)
    when = {name: given.pop(name) for name in job_timing.READERS if name in given}
    if held is not None and when == job_document.timing_of(held):
        fields = {name: getattr(held, name) for name in job.TIMING_FIELDS}
    else:
        fields = job_timing.resolve(when, now, faults, held)
    if "target" not in given:
        faults.add("/target", 'is missing; write {"handler": "name"}', "missing")
    if "name" not in given and "run_at" not in when and "run_in_s" not in when:
        faults.add("/name", "is missing: only a job with run_at or run_in_s may go without", "missing")
    faults.raise_all()
    return job.JobSpec(**given, **fields)


class Parser:
    """`parse` for the bodies of a batch, as `read_bodies` gives them: what many of them share is looked at once.

    Most batches are one job many times, each with a payload or a name of its own. Members are the same where they are the same
    object, so the bodies must be kept for as long as this is used.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[tuple[object, ...], _Shared] = {}

    def parse(self, body: Mapping[str, Any]) -> job.JobSpec:
        """The job that a body describes. Raises like `parse`."""
        given = tuple([part for name, value in body.items() for part in (name, name in _OWN or id(value))])
        shared = self._known.get(given)
        if shared is not None:
            faults = Faults()
            own = _read_members({name: body[name] for name in _OWN if name in body}, faults)
            if not faults and own.keys() == shared.own:
                return job.JobSpec(**shared.members, **own)
        spec = parse(body, now=self._now)
        if len(self._known) < _KINDS:
            own_names = frozenset(name for name in _OWN if body.get(name) is not None)
            members = {name: getattr(spec, name) for name in _FIELDS if name not in own_names}
            self._known[given] = _Shared(members, own_names)
        return spec


class _Shared(NamedTuple):
    """What bodies have in common: the members of their jobs but for those in `own`, which each of them has for itself."""

    members: dict[str, Any]
    own: frozenset[str]


def merge(spec: job.JobSpec, patch: Mapping[str, Any], *, now: datetime) -> job.JobSpec:
    """The job that a merge-patch (RFC 7396) makes of another.

    `null` sets a member back to its default; `target`, `retry` and `expect` are merged inside; a payload is one value
    and is replaced as a whole. Raises like `parse`.
    """
    body = job_document.body_of(spec)
    if patch.get("run_in_s") is not None and patch.get("run_at") is None:
        body.pop("run_at", None)
    merged = parse(_merged(body, patch), now=now, held=spec)
    return dataclasses.replace(merged, target=job_target.unmask(merged.target, spec.target))


def _merged(body: Mapping[str, Any], patch: Mapping[str, Any], *, top: bool = True) -> dict[str, Any]:
    merged = dict(body)
    for name, value in patch.items():
        held = merged.get(name)
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(held, Mapping) and not (top and name == "payload"):
            merged[name] = _merged(held, value, top=False)
        else:
            merged[name] = value
    return merged


def _members_alike(raw: Mapping[str, msgspec.Raw], known: dict[bytes, Any]) -> dict[str, Any]:
    """As `_members`, where members with the same text are the same object: they are read once."""
    members: dict[str, Any] = {}
    for name, value in raw.items():
        if name in _OWN:
            members[name] = value if name == "payload" else _VALUE.decode(value)
            continue
        text = bytes(value)
        if text not in known and len(known) < _KINDS:
            known[text] = _VALUE.decode(value)
        members[name] = known[text] if text in known else _VALUE.decode(value)
    return members


def _members(raw: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: value if name == "payload" else _VALUE.decode(value) for name, value in raw.items()}


def _read_slowly(raw: bytes) -> dict[str, Any]:
    """The members of a body that the quick reader refused: it may still be read as far as to name each fault."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_int=_read_int)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidError([errors.Fault("", f"is not JSON: {_reason(error)}", "malformed_json")]) from None
    if not isinstance(value, dict):
        raise errors.InvalidError([errors.Fault("", f"{job_fields.shown(value)} is not an object")])
    return value


def _read_int(digits: str) -> Any:
    """A whole number; one that no reader takes becomes a float, which is infinite, and is refused as such."""
    return int(digits) if len(digits) <= job_payload.MAX_DIGITS else float(digits)


_ELEMENT = json.JSONDecoder(parse_int=_read_int)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return "it is not valid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _read_bodies_one_by_one(raw: bytes | memoryview) -> list[dict[str, Any] | errors.HorariumError]:
    """The bodies of a batch in which at least one cannot be read; each is read by itself."""
    try:
        parts = list(_elements(bytes(raw).decode()))
    except (ValueError, RecursionError) as error:
        detail = f"is not a JSON list: {_reason(error)}"
        raise errors.InvalidError([errors.Fault("", detail, "malformed_json")]) from None
    _check_batch_size(len(parts))
    return [_body_or_error(part) for part in parts]


def _elements(text: str) -> Iterator[str]:
    """The texts of the elements of a JSON list."""
    position = _expect(text, 0, "[")
    more = not text.startswith("]", _skip(text, position))
    while more:
        start = _skip(text, position)
        _, end = _ELEMENT.raw_decode(text, start)
        yield text[start:end]
        position = _skip(text, end)
        more = text.startswith(",", position)
        position += more
    _expect(text, _expect(text, position, "]"), "")


def _skip(text: str, position: int) -> int:
    """Where the next text that is no space begins."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _expect(text: str, position: int, sign: str) -> int:
    """The place behind a sign that must come next; behind the end, where nothing may come."""
    found = _skip(text, position)
    if text[found : found + 1] != sign:
        raise json.JSONDecodeError(f"expecting {sign or 'the end'!r}", text, found)
    return found + len(sign)


def _body_or_error(text: str) -> dict[str, Any] | errors.HorariumError:
    try:
        return read_body(text.encode())
    except errors.HorariumError as error:
        return error


def _check_batch_size(size: int) -> None:
    if size > MAX_BATCH:
        raise errors.TooLargeError(f"the batch has {size} jobs; at most {MAX_BATCH} are allowed")


def _read_members(body: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    """The members of a body, each read; `null` counts as left out."""
    read: dict[str, Any] = {}
    for name, value in body.items():
        reader = _READERS.get(name)
        if reader is None:
            _refuse_unknown(name, faults)
        elif value is not None:
            read[name] = reader(value, f"/{name}", faults)
    return read


def _refuse_unknown(name: object, faults: Faults) -> None:
    pointer = job_fields.pointer_to("", name)
    if name in _LATER:
        faults.add(pointer, "is not in this version", "not_in_this_version")
    elif name in _READ_ONLY:
        faults.add(pointer, "is set by the server; leave it out", "read_only_member")
    elif name in _HINTS:
        faults.add(pointer, f"is unknown; did you mean {_HINTS[str(name)]}?", "unknown_member")
    else:
        faults.add(pointer, f"is unknown{job_fields.suggestion(name, _READERS)}", "unknown_member")


def _read_tags(value: Any, pointer: str, faults: Faults) -> tuple[str, ...]:
    """The tags in their order, each once."""
    tags = [_TAG(tag, path, faults) for path, tag in job_fields.entries(value, pointer, faults, MAX_TAGS)]
    return tuple(dict.fromkeys(tags))


def _read_expect(value: Any, pointer: str, faults: Faults) -> dict[str, Any] | None:
    return job_fields.members(value, pointer, faults, _WITHIN) or None


_READERS: Mapping[str, job_fields.Reader] = {
    "name": _LABEL,
    "description": job_fields.text(2000),
    "owner": _LABEL,
    "tags": _read_tags,
    "managed_by": _LABEL,
    "target": job_target.read,
    "payload": job_payload.read,
    "queue": job_fields.pattern(
        r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}",
        "a queue's name: 1 to 100 letters, digits and _ . : -, beginning with a letter, digit or _",
    ),
    "priority": job_fields.integer(0, 9),
    **job_timing.READERS,
    "jitter_s": job_fields.integer(0, 86_400),
    "misfire": job_fields.word(Misfire),
    "misfire_grace_s": job_fields.integer(0, MAX_SPAN_S),
    "catch_up_window_s": job_fields.integer(0, MAX_SPAN_S),
    "max_catch_up": job_fields.integer(0, 1000),
    "overlap": job_fields.word(Overlap),
    "retry": job_retry.read,
    "timeout_s": job_fields.integer(1, 86_400),
    "expect": _read_expect,
}
