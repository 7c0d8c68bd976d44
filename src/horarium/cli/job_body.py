"""The body of a job from flags: `--schedule "0 2 * * *" --handler billing.run` becomes what the REST API takes.

Pure: no clock, no network. What the server can check better (does the zone exist, does the schedule ever fire) is left
to it, so that there is one place that decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import click

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

# Flags whose value stands in the body as it is, under the same name.
_PLAIN = (
    "name",
    "description",
    "owner",
    "queue",
    "priority",
    "schedule",
    "fold",
    "timezone",
    "start_at",
    "end_at",
    "misfire",
    "overlap",
)
_SECONDS = {"every": "interval_s", "jitter": "jitter_s", "timeout": "timeout_s"}


@dataclass(frozen=True, slots=True)
class Body:
    """A job's body. `payload` is kept apart as JSON text, so that its numbers stay as they were written."""

    members: Mapping[str, Any]
    payload: str | None = None

    def encode(self) -> str:
        """The whole body as JSON text."""
        members = [f"{json.dumps(name)}: {_json(value)}" for name, value in self.members.items()]
        if self.payload is not None:
            members.append(f'"payload": {self.payload}')
        return "{" + ", ".join(members) + "}"

    def as_value(self) -> dict[str, Any]:
        """The whole body as a value, to be shown."""
        value: dict[str, Any] = json.loads(self.encode())
        return value


def from_flags(flags: Mapping[str, Any]) -> Body:
    """The body that the flags of `jobs create` and `jobs update` describe; flags that are absent leave no trace."""
    body = {name: flags[name] for name in _PLAIN if flags.get(name) is not None}
    body |= {
        member: _whole_seconds(flags[flag], flag) for flag, member in _SECONDS.items() if flags.get(flag) is not None
    }
    body |= _once(flags)
    body |= _target(flags)
    body |= _retry(flags)
    if flags.get("tags"):
        body["tags"] = list(flags["tags"])
    if flags.get("expect_within"):
        body["expect"] = {"within_s": _whole_seconds(flags["expect_within"], "expect-within")}
    return Body(body, flags.get("payload"))


def reference(text: str) -> str:
    """How a path names a job: by id, or `name:` and the name. A name that looks like an id needs the prefix."""
    return text if UUID.fullmatch(text) or text.startswith("name:") else f"name:{text}"


def _once(flags: Mapping[str, Any]) -> dict[str, Any]:
    """`--in` is sent as a duration: the server's clock decides when it ends."""
    if flags.get("in_") is not None:
        return {"run_in_s": flags["in_"].total_seconds()}
    return {"run_at": flags["at"]} if flags.get("at") else {}


def _target(flags: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in ("handler", "http", "command") if flags.get(kind)]
    if len(kinds) > 1:
        raise click.UsageError("Give one of --handler, --http and --command: a job has one target.")
    _refuse_stray(flags, kinds)
    match kinds:
        case ["handler"]:
            return {"target": {"handler": flags["handler"]}}
        case ["http"]:
            http = {
                "url": flags["http"],
                "method": flags.get("method"),
                "headers": _pairs(flags.get("headers", ()), ":"),
            }
            return {"target": {"http": _present(http)}}
        case ["command"]:
            argv = [flags["command"], *flags.get("arguments", ())]
            command = {"argv": argv, "env": _pairs(flags.get("environment", ()), "="), "cwd": flags.get("cwd")}
            return {"target": {"command": _present(command)}}
        case _:
            return {}


def _refuse_stray(flags: Mapping[str, Any], kinds: Sequence[str]) -> None:
    """Flags that say more about a target of another kind than the one given would be lost without a word."""
    belongs = {"--method": "http", "--header": "http", "--arg": "command", "--env": "command", "--cwd": "command"}
    members = {
        "--method": "method",
        "--header": "headers",
        "--arg": "arguments",
        "--env": "environment",
        "--cwd": "cwd",
    }
    for flag, kind in belongs.items():
        if flags.get(members[flag]) and kind not in kinds:
            raise click.UsageError(f"{flag} needs --{kind}.")


def _retry(flags: Mapping[str, Any]) -> dict[str, Any]:
    retry = json.loads(flags["retry"]) if flags.get("retry") else {}
    if flags.get("max_attempts"):
        retry = {**retry, "max_attempts": flags["max_attempts"]}
    return {"retry": retry} if retry else {}


def _pairs(texts: Sequence[str], separator: str) -> dict[str, str]:
    pairs = [text.partition(separator) for text in texts]
    for text, (name, found, _) in zip(texts, pairs, strict=True):
        if not found or not name.strip():
            raise click.UsageError(f"{text!r} is not of the form NAME{separator}VALUE.")
    return {name.strip(): value.strip() if separator == ":" else value for name, _, value in pairs}


def _whole_seconds(duration: timedelta, flag: str) -> int:
    if duration % timedelta(seconds=1):
        raise click.UsageError(f"--{flag} must be a whole number of seconds.")
    return duration // timedelta(seconds=1)


def _present(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
