"""A handler's signature as the contract of its payload."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pydantic
import pytest

from horarium import errors
from horarium.sdk import signature


@dataclass
class Address:
    city: str
    codes: list[int]


class Colour(enum.Enum):
    RED = "red"


class Customer(pydantic.BaseModel):
    id: int


def required(ctx: Any, user_id: int, at: datetime, key: UUID) -> None: ...


def optional(ctx: Any, user_id: int, tags: list[str] = [], *, colour: Colour = Colour.RED) -> None: ...  # noqa: B006


def nested(ctx: Any, address: Address, customer: Customer) -> None: ...


def open_ended(ctx: Any, user_id: int, **rest: int) -> None: ...


def untyped(ctx, anything) -> None: ...  # type: ignore[no-untyped-def]


def nothing(ctx: Any) -> None: ...


KEY = "0193fd5e-7f3b-7000-8000-000000000001"


def test_required_arguments_are_read_by_their_hints() -> None:
    payload = b'{"user_id": 7, "key": "%b", "at": "2026-12-01T02:00:00Z"}' % KEY.encode()
    arguments = signature.Signature(required).read(payload)
    assert arguments == ((7, datetime(2026, 12, 1, 2, tzinfo=UTC), UUID(KEY)), {})


def test_absent_arguments_take_the_handlers_own_defaults() -> None:
    positional, named = signature.Signature(optional).read(b'{"user_id": 7}')
    assert positional == (7, []) and named == {"colour": Colour.RED}
    assert positional[1] is optional.__defaults__[0]  # type: ignore[index]


def test_given_arguments_win_over_defaults() -> None:
    arguments = signature.Signature(optional).read(b'{"colour": "red", "tags": ["a"], "user_id": 7}')
    assert arguments == ((7, ["a"]), {"colour": Colour.RED})


def test_dataclasses_and_pydantic_models_are_read() -> None:
    payload = b'{"address": {"city": "Pune", "codes": [1]}, "customer": {"id": 3}}'
    assert signature.Signature(nested).read(payload).positional == (Address("Pune", [1]), Customer(id=3))


def test_a_handler_with_open_keywords_takes_the_rest_by_its_hint() -> None:
    assert signature.Signature(open_ended).read(b'{"a": 1, "user_id": 7}') == ((7,), {"a": 1})
    with pytest.raises(signature.MismatchError, match=r"/payload/a: Expected `int`, got `str`"):
        signature.Signature(open_ended).read(b'{"a": "x", "user_id": 7}')


def test_an_untyped_argument_takes_anything_digit_for_digit() -> None:
    arguments = signature.Signature(untyped).read(b'{"anything": [123456789012345678901234567890]}')
    assert arguments.positional == ([123456789012345678901234567890],)


def test_no_arguments() -> None:
    assert signature.Signature(nothing).read(b"{}") == ((), {})


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(signature.MismatchError) as caught:
        signature.Signature(required).read(b'{"user_id": "7", "user_idd": 1, "at": "soon"}')
    assert {(fault.pointer, fault.code) for fault in caught.value.faults} == {
        ("/payload/key", "missing"),
        ("/payload/user_id", "invalid"),
        ("/payload/user_idd", "unknown"),
        ("/payload/at", "invalid"),
    }
    assert "did you mean user_id?" in str(caught.value)


def test_a_fault_inside_an_argument_is_pointed_at() -> None:
    with pytest.raises(signature.MismatchError) as caught:
        signature.Signature(nested).read(b'{"address": {"city": "Pune", "codes": [1, "x"]}, "customer": {"id": "y"}}')
    assert [fault.pointer for fault in caught.value.faults] == ["/payload/address/codes/1", "/payload/customer"]


@pytest.mark.parametrize("payload", [b"[]", b"null", b"7", b"{", b'"x"'])
def test_a_payload_that_is_no_object_is_refused(payload: bytes) -> None:
    with pytest.raises(signature.MismatchError, match="must be a JSON object"):
        signature.Signature(nothing).read(payload)


def test_writing_checks_what_will_be_read() -> None:
    contract = signature.Signature(nested)
    payload = contract.write({"address": Address("Pune", [1]), "customer": Customer(id=3)})
    assert contract.read(payload).positional == (Address("Pune", [1]), Customer(id=3))
    with pytest.raises(signature.MismatchError, match="user_id"):
        signature.Signature(open_ended).write({"user_id": "seven"})


@pytest.mark.parametrize("value", [object(), "\ud800", {1j: 2}])
def test_writing_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(signature.MismatchError, match="cannot be written as JSON"):
        signature.Signature(untyped).write({"anything": value})


def test_a_call_is_bound_by_name() -> None:
    contract = signature.Signature(optional)
    assert contract.bind((7, ["a"]), {"colour": Colour.RED}) == {"user_id": 7, "tags": ["a"], "colour": Colour.RED}
    with pytest.raises(signature.MismatchError, match="takes 2 positional arguments, 3 were given"):
        contract.bind((7, ["a"], Colour.RED), {})
    with pytest.raises(signature.MismatchError, match="user_id is given twice"):
        contract.bind((7,), {"user_id": 8})


def test_functions_that_cannot_be_handlers_are_refused() -> None:
    def no_context() -> None: ...
    def by_name_only(*, ctx: Any) -> None: ...
    def starred(ctx: Any, *args: int) -> None: ...
    def unknown_hint(ctx: Any, x: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, text in (
        (no_context, "takes the context first"),
        (by_name_only, "takes the context first"),
        (starred, r"cannot take \*args"),
        (unknown_hint, "Nowhere"),
    ):
        with pytest.raises(errors.ConfigurationError, match=text):
            signature.Signature(function)
