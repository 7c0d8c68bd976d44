"""A handler's signature as the contract of its payload: a JSON object whose members are the arguments.

The same check runs when a run is enqueued (with the arguments written as JSON, so that what is checked is what will
be read) and when it is carried out. Type hints are checked strictly, as JSON has them: `"7"` is not an int. Besides the
JSON types a hint may be anything msgspec reads (datetime, UUID, Decimal, Enum, dataclass, TypedDict, Struct) or a
pydantic model.
"""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from horarium import errors


class MismatchError(errors.InvalidError):
    """A payload does not fit the handler's signature."""

    title = "The payload does not fit the handler"


class Arguments(NamedTuple):
    """What to call the handler with, after the context."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class Signature:
    """The parameters of one handler after its context, ready to read payloads with.

    Making one resolves the type hints, so it is done when a handler is first used: only then do all names exist.
    ConfigurationError when a hint cannot be read.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._label = label(function)
        parameters = parameters_of(function)
        hints = _hints(function, self._label)
        self._hints = {name: hints.get(name, Any) for name in parameters}
        self._plain = {name: p for name, p in parameters.items() if p.kind is not Parameter.VAR_KEYWORD}
        self._rest = next((name for name, p in parameters.items() if p.kind is Parameter.VAR_KEYWORD), None)
        self._decode = self._decoder().decode
        self._is_simple = self._rest is None and all(_is_simple(parameter) for parameter in self._plain.values())

    def read(self, payload: Raw | bytes) -> Arguments:
        """The arguments that a payload holds; MismatchError names everything that does not fit."""
        try:
            values = self._decode(payload)
            if self._is_simple:  # the usual handler: all arguments required, none by name only
                return Arguments(msgspec.structs.astuple(values), {})
            return self._arguments(values, payload)
        except msgspec.DecodeError as error:
            raise MismatchError(self._faults(payload) or [errors.Fault("/payload", str(error))]) from None

    def write(self, arguments: Mapping[str, Any]) -> bytes:
        """The payload for these arguments; MismatchError when it would not be read, or cannot be JSON."""
        try:
            payload = msgspec.json.encode(arguments, enc_hook=encode_other)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise MismatchError([errors.Fault("/payload", f"cannot be written as JSON: {error}")]) from None
        self.read(payload)
        return payload

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, by name; MismatchError when there are too many, or one is given twice."""
        names = [name for name, p in self._plain.items() if p.kind is not Parameter.KEYWORD_ONLY]
        if len(args) > len(names):
            detail = f"{self._label} takes {len(names)} positional arguments, {len(args)} were given"
            raise MismatchError([errors.Fault("/payload", detail)])
        positional = dict(zip(names, args, strict=False))
        twice = sorted(positional.keys() & kwargs.keys())
        if twice:
            raise MismatchError([errors.Fault(f"/payload/{name}", f"{name} is given twice") for name in twice])
        return positional | dict(kwargs)

    def _decoder(self) -> msgspec.json.Decoder[Any]:
        fields: list[Any] = [
            (name, self._hints[name]) if p.default is Parameter.empty else (name, self._hints[name] | UnsetType, UNSET)
            for name, p in self._plain.items()
        ]
        try:
            shape = msgspec.defstruct(
                "Payload", fields, kw_only=True, forbid_unknown_fields=self._rest is None, gc=False
            )
            return msgspec.json.Decoder(shape, dec_hook=_decode_other)
        except TypeError as error:
            raise errors.ConfigurationError(
                f"{self._label}: a payload cannot be read into its hints: {error}"
            ) from None

    def _arguments(self, values: Any, payload: Raw | bytes) -> Arguments:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, parameter in self._plain.items():
            value = getattr(values, name)
            chosen = parameter.default if value is UNSET else value
            if parameter.kind is Parameter.KEYWORD_ONLY:
                named[name] = chosen
            else:
                positional.append(chosen)
        if self._rest is not None:
            members = msgspec.json.decode(payload, type=dict[str, Raw])
            decode = msgspec.json.Decoder(self._hints[self._rest], dec_hook=_decode_other).decode
            named |= {name: decode(raw) for name, raw in members.items() if name not in self._plain}
        return Arguments(tuple(positional), named)

    def _faults(self, payload: Raw | bytes) -> list[errors.Fault]:
        """Every fault of a payload that was refused, found argument by argument."""
        try:
            members = msgspec.json.decode(payload, type=dict[str, Raw])
        except msgspec.DecodeError:
            return [errors.Fault("/payload", f"must be a JSON object that holds the arguments of {self._label}")]
        missing = [
            errors.Fault(f"/payload/{name}", f"{name} is missing", "missing")
            for name, parameter in self._plain.items()
            if parameter.default is Parameter.empty and name not in members
        ]
        return missing + [fault for name, raw in members.items() if (fault := self._fault(name, raw))]

    def _fault(self, name: str, raw: Raw) -> errors.Fault | None:
        hint = self._hints.get(name if name in self._plain else self._rest or "", UNSET)
        if hint is UNSET:
            close = difflib.get_close_matches(name, self._plain, n=1)
            guess = f"; did you mean {close[0]}?" if close else ""
            return errors.Fault(f"/payload/{name}", f"{self._label} has no argument {name}{guess}", "unknown")
        try:
            msgspec.json.Decoder(hint, dec_hook=_decode_other).decode(raw)
        except msgspec.DecodeError as error:
            text, _, where = str(error).partition(" - at `$")
            return errors.Fault(f"/payload/{name}{_pointer(where.rstrip('`'))}", text)
        return None


def label(function: Callable[..., Any]) -> str:
    """How messages name a function: `module.name`."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"


def parameters_of(function: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters after the context; ConfigurationError when the function cannot be a handler."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}:
        raise errors.ConfigurationError(f"{label(function)}: a handler takes the context first: def handler(ctx, …)")
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters):
        raise errors.ConfigurationError(f"{label(function)}: arguments come by name, so a handler cannot take *args")
    return {parameter.name: parameter for parameter in parameters[1:]}


def encode_other(value: Any) -> Any:
    """JSON for what msgspec does not know: pydantic models."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _decode_other(hint: type, value: Any) -> Any:
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    raise TypeError(f"{hint.__name__} cannot be read from JSON")


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise errors.ConfigurationError(
            f"{name}: its type hints cannot be read: {error} (a name under TYPE_CHECKING does not exist at run time)"
        ) from None


def _is_simple(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind is not Parameter.KEYWORD_ONLY


def _pointer(path: str) -> str:
    """`.items[2].name` (how msgspec writes a place) as `/items/2/name`."""
    return "".join(f"/{step}" for step in re.findall(r"[^.\[\]]+", path))
