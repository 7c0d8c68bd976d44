"""The `target` member of a job's body: who or what carries a run out. Secrets in it can be written, never read.

Shown, a secret is `***`. A body that sends `***` back means: leave it as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

from horarium.domain import job_fields
from horarium.domain.job_fields import Faults

MASK = "***"
KINDS = ("handler", "http", "command")
LATER = ("kafka", "redis", "nats", "amqp", "sqs")

MAX_URL = 2048
MAX_HEADERS = 50
MAX_HEADER_VALUE = 4096
MAX_ARGUMENTS = 256
MAX_ARGUMENT = 32_768
MAX_ENVIRONMENT = 100

# Set for each request by the worker that sends it, or by the connection itself.
_OUR_HEADERS = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "keep-alive",
        "proxy-connection",
        "idempotency-key",
        "traceparent",
    ]
)
_OUR_PREFIXES = ("horarium-", "webhook-")
_SECRET_NAME = re.compile(r"(?i)auth|cookie|token|secret|password|passwd|api[-_]?key|credential|signature")

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_HANDLER_NAME = re.compile(r"\w[\w.:/-]{0,199}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_URL_CHARACTERS = re.compile(r"[\x21-\x7e]+")


def read(value: Any, pointer: str, faults: Faults) -> Mapping[str, Any]:
    """A target with exactly one of its kinds, each looked at in full."""
    if _is_plain_handler(value):
        return {"handler": value["handler"]}
    if not isinstance(value, Mapping):
        hint = '; write {"handler": "name"}' if isinstance(value, str) else ""
        faults.add(pointer, f"{job_fields.shown(value)} is not an object{hint}")
        return {}
    later = [kind for kind in value if kind in LATER]
    for kind in later:
        faults.add(f"{pointer}/{kind}", f"is not in this version; use one of {', '.join(KINDS)}", "not_in_this_version")
    given = job_fields.members({k: v for k, v in value.items() if k not in LATER}, pointer, faults, _KIND_READERS)
    if len(given) > 1 or not (given or later):
        found = f" (given: {', '.join(given)}; null takes one away)" if given else ""
        faults.add(pointer, f"needs exactly one of {', '.join(KINDS)}{found}")
    return given


def _is_plain_handler(value: Any) -> bool:
    """The common case, in a batch of thousands."""
    if type(value) is not dict or len(value) != 1:
        return False
    name = value.get("handler")
    return type(name) is str and _HANDLER_NAME.fullmatch(name) is not None


def masked(target: Mapping[str, Any]) -> dict[str, Any]:
    """A target as it may be shown: its secrets as `***`."""
    shown = dict(target)
    for path in _secret_paths(target):
        shown = _with(shown, path, MASK)
    return shown


def unmask(target: Mapping[str, Any], held: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A target whose `***` are replaced by the secrets of the target that is held now.

    Raises InvalidError where there is no such secret: then `***` itself would be used as one.
    """
    if "handler" in target:
        return target
    faults = Faults()
    for path in _secret_paths(target):
        if _at(target, path) == MASK:
            secret = _at(held or {}, path)
            if not isinstance(secret, str):
                faults.add("/target/" + "/".join(path), f"{MASK} stands for a secret that is not held; send the secret")
            else:
                target = _with(target, path, secret)
    faults.raise_all()
    return target


def _secret_paths(target: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Where secrets stand: the signing secret, and headers and variables that are named like one."""
    paths: list[tuple[str, ...]] = [("http", "secret")] if _at(target, ("http", "secret")) is not None else []
    for kind, group in (("http", "headers"), ("command", "env")):
        names = _at(target, (kind, group)) or {}
        paths.extend((kind, group, name) for name in names if _SECRET_NAME.search(name))
    return paths


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _with(value: Mapping[str, Any], path: tuple[str, ...], leaf: str) -> dict[str, Any]:
    """A copy with one leaf replaced."""
    first, *rest = path
    return {**value, first: _with(value[first], tuple(rest), leaf) if rest else leaf}


def _read_http(value: Any, pointer: str, faults: Faults) -> dict[str, Any]:
    given = job_fields.members(value, pointer, faults, _HTTP_READERS)
    if isinstance(value, Mapping) and value.get("url") is None:
        faults.add(f"{pointer}/url", "is missing", "missing")
    return given


def _read_url(value: Any, pointer: str, faults: Faults) -> str | None:
    if type(value) is not str or not _URL_CHARACTERS.fullmatch(value) or len(value) > MAX_URL:
        faults.add(pointer, f"{job_fields.shown(value)} is not a URL of at most {MAX_URL} printable ASCII characters")
        return None
    try:
        parts = urllib.parse.urlsplit(value)
        port = parts.port
    except ValueError as error:
        faults.add(pointer, f"is not a URL: {error}")
        return None
    if parts.scheme not in ("http", "https"):
        faults.add(pointer, "does not begin with http:// or https://")
    elif not parts.hostname:
        faults.add(pointer, "names no host")
    elif port == 0:
        faults.add(pointer, "names port 0, which cannot be connected to")
    elif parts.username is not None or parts.password is not None:
        faults.add(pointer, "carries a user or password, which would be shown; send an Authorization header instead")
    return value


def _read_headers(value: Any, pointer: str, faults: Faults) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > MAX_HEADERS:
        faults.add(pointer, f"{job_fields.shown(value)} is not an object of at most {MAX_HEADERS} headers")
        return {}
    for name, content in value.items():
        path = job_fields.pointer_to(pointer, name)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            faults.add(path, "is not a header name (RFC 9110)")
        elif name.lower() in _OUR_HEADERS or name.lower().startswith(_OUR_PREFIXES):
            faults.add(path, "is set by Horarium or by the connection and cannot be given")
        if not isinstance(content, str) or not _HEADER_VALUE.fullmatch(content) or len(content) > MAX_HEADER_VALUE:
            faults.add(
                path, f"is not a value of at most {MAX_HEADER_VALUE} Latin-1 characters without line ends or controls"
            )
    return dict(value)


def _read_secret(value: Any, pointer: str, faults: Faults) -> str | None:
    """A signing secret: `whsec_` and Base64 as Standard Webhooks writes it, or any other text."""
    if type(value) is not str or not 1 <= len(value) <= 500 or not value.isprintable():
        faults.add(pointer, "is not a secret of 1 to 500 printable characters")
        return None
    if value.startswith("whsec_"):
        try:
            base64.b64decode(value.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            faults.add(pointer, "begins with whsec_ but is not followed by Base64")
    return value


def _read_retry_on(value: Any, pointer: str, faults: Faults) -> list[int]:
    status = job_fields.integer(300, 599)
    return [status(each, path, faults) for path, each in job_fields.entries(value, pointer, faults, 100)]


def _read_command(value: Any, pointer: str, faults: Faults) -> dict[str, Any]:
    given = job_fields.members(value, pointer, faults, _COMMAND_READERS)
    if isinstance(value, Mapping) and value.get("argv") is None:
        faults.add(f"{pointer}/argv", "is missing", "missing")
    return given


def _read_argv(value: Any, pointer: str, faults: Faults) -> list[str]:
    argv = job_fields.entries(value, pointer, faults, MAX_ARGUMENTS)
    if isinstance(value, str):
        faults.add(pointer, 'no shell splits it: write a list such as ["tar", "-xf", "a.tar"]')
    elif isinstance(value, list | tuple) and not value:
        faults.add(pointer, "is empty: the first element names the program")
    for path, argument in argv:
        _check_text(argument, path, faults)
    if argv and argv[0][1] == "":
        faults.add(argv[0][0], "is empty: it names the program")
    return [argument for _, argument in argv]


def _read_env(value: Any, pointer: str, faults: Faults) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > MAX_ENVIRONMENT:
        faults.add(pointer, f"{job_fields.shown(value)} is not an object of at most {MAX_ENVIRONMENT} variables")
        return {}
    for name, content in value.items():
        path = job_fields.pointer_to(pointer, name)
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            faults.add(path, "is not a variable name: letters, digits and _, not beginning with a digit")
        _check_text(content, path, faults)
    return dict(value)


def _read_cwd(value: Any, pointer: str, faults: Faults) -> str | None:
    if type(value) is not str or not value.startswith("/"):
        faults.add(pointer, f"{job_fields.shown(value)} is not an absolute path")
        return None
    _check_text(value, pointer, faults)
    return value


def _check_text(value: Any, pointer: str, faults: Faults) -> None:
    """What can be handed to a program: text without U+0000."""
    if type(value) is not str:
        faults.add(pointer, f"{job_fields.shown(value)} is not a string")
    elif "\0" in value:
        faults.add(pointer, "holds U+0000, which no program can be given")
    elif len(value) > MAX_ARGUMENT:
        faults.add(pointer, f"has {len(value)} characters; at most {MAX_ARGUMENT} are allowed")
    else:
        job_fields.text(MAX_ARGUMENT)(value, pointer, faults)


_HANDLER = job_fields.pattern(
    _HANDLER_NAME.pattern,
    "a handler's name: 1 to 200 letters, digits and _ . : / -, beginning with a letter, digit or _",
)
_HTTP_READERS: Mapping[str, job_fields.Reader] = {
    "url": _read_url,
    "method": job_fields.word(("POST", "PUT", "PATCH", "GET", "DELETE", "HEAD")),
    "headers": _read_headers,
    "secret": _read_secret,
    "retry_on": _read_retry_on,
}
_COMMAND_READERS: Mapping[str, job_fields.Reader] = {
    "argv": _read_argv,
    "env": _read_env,
    "cwd": _read_cwd,
    "stdin": job_fields.text(65_536),
}
_KIND_READERS: Mapping[str, job_fields.Reader] = {"handler": _HANDLER, "http": _read_http, "command": _read_command}
