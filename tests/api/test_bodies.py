"""Bodies: what is read, what is refused, and that payloads stay as they were written."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import errors
from horarium.api import bodies


def codes(raw: bytes) -> list[tuple[str, str]]:
    with pytest.raises(errors.InvalidError) as caught:
        bodies.members(raw)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


def test_a_payload_stays_as_it_was_written() -> None:
    raw = b'{"name": "a", "payload": {"b" : 12345678901234567890.10e1, "a":[1 ,2]}, "priority": 7}'
    members = bodies.members(raw)
    assert (members["name"], members["priority"]) == ("a", 7)
    assert bytes(members["payload"]) == b'{"b" : 12345678901234567890.10e1, "a":[1 ,2]}'


@pytest.mark.parametrize("raw", [b"", b"[]", b"7", b'"text"', b"null", b"{", b"{'a': 1}", b'{"a": 1}}', b"\xff{}"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidError):
        bodies.members(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"a","name":"b"}',
        b'{"name": "a", "name": "b"}',
        b'{ "name" : "a" ,\n "name" : "b" }',
        b'{"payload":{},"name":"a","payload":{"x":1}}',
        b'{"na\\u006de":"a","name":"b"}',
    ],
)
def test_a_member_stated_twice_is_refused(raw: bytes) -> None:
    ((pointer, code),) = codes(raw)
    assert pointer in ("/name", "/payload")
    assert code == "stated_twice"


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.lists(st.booleans()), max_size=5))
def test_members_stated_once_are_never_refused(value: dict[str, object]) -> None:
    for text in (
        json.dumps(value),
        json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        json.dumps(value, indent=3),
    ):
        assert bodies.members(text.encode()).keys() == value.keys()


def test_what_a_payload_states_twice_is_its_own_affair() -> None:
    assert bytes(bodies.members(b'{"payload":{"a":1,"a":2}}')["payload"]) == b'{"a":1,"a":2}'


def test_sixty_four_levels_are_read_and_one_more_is_not() -> None:
    deepest = b'{"payload":' + b"[" * 63 + b"]" * 63 + b"}"
    assert bodies.members(deepest)
    assert codes(b'{"payload":' + b"[" * 64 + b"]" * 64 + b"}") == [("", "too_deep")]
    assert codes(b"[" * 100_000) == [("", "too_deep")]


def test_many_brackets_side_by_side_or_in_text_are_not_deep() -> None:
    assert bodies.members(b'{"tags":[' + b",".join([b"[]"] * 100) + b'],"name":"' + b"[{" * 100 + b'\\"["}')


def test_a_body_that_may_be_left_out_is_empty_then() -> None:
    for raw in (b"", b" \n", b"{}", b'{"reason":null}'):
        assert bodies.optional_members(raw, ("reason",)) == {}
    assert bodies.optional_members(b'{"reason":"r"}', ("reason",)) == {"reason": "r"}


def test_a_misspelt_member_is_refused_with_a_suggestion() -> None:
    with pytest.raises(errors.InvalidError) as caught:
        bodies.optional_members(b'{"raeson":"r","x/y":1}', ("reason", "until"))
    assert [fault.pointer for fault in caught.value.faults] == ["/raeson", "/x~1y"]
    assert "reason" in caught.value.faults[0].detail


def test_the_only_member_is_given_as_it_is() -> None:
    found = bodies.only_member(b'{"jobs": [ {"a":1.0} ]}', "jobs")
    assert isinstance(found, msgspec.Raw)
    assert bytes(found) == b'[ {"a":1.0} ]'


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"items":[]}', b'{"jobs":[],"more":1}', b'{"jobs":['])
def test_another_shape_than_the_only_member_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.InvalidError):
        bodies.only_member(raw, "jobs")
