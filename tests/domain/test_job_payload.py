"""What a payload may hold (rule N4)."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horarium import errors
from horarium.domain import job_payload
from horarium.domain.job_fields import Faults


def read(raw: str) -> str:
    """The text of raw JSON, or all faults."""
    faults = Faults()
    text = job_payload.read(msgspec.Raw(raw.encode("utf-8", "surrogatepass")), "/payload", faults)
    faults.raise_all()
    return text


def paths(raw: str) -> list[str]:
    with pytest.raises(errors.InvalidError) as raised:
        read(raw)
    return [fault.pointer for fault in raised.value.faults]


@pytest.mark.parametrize(
    "raw",
    ['{"b":1,"a":2}', "[1.10, 1e5, -0.0]", '"\\u00e9 \\ud83d\\ude00"', "null", "true", "12345678901234567890123", "9" * 1000,
     '"' + "[" * 500 + '"', '"\\\\u0000"', "1e-400", "[" * 100 + "]" * 100],
)  # fmt: skip
def test_payloads_stay_as_they_are(raw: str) -> None:
    assert read(raw) == raw


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ('"\\u0000"', ["/payload"]),
        ('{"a":{"b":["x","y\\u0000"]}}', ["/payload/a/b/1"]),
        ('{"k\\u0000":1}', ["/payload/k\0"]),
        ('{"a/b~c":"\\u0000"}', ["/payload/a~1b~0c"]),
        ('["\\ud800", "\\udc00x", "ok"]', ["/payload/0", "/payload/1"]),
        ("[1e400, -1E+999, 0]", ["/payload/0", "/payload/1"]),
        ("[" + "9" * 1001 + "]", ["/payload/0"]),
        ("[" * 101 + "]" * 101, ["/payload"]),
        ('{"a":' * 40_000 + "1" + "}" * 40_000, ["/payload"]),
    ],
)
def test_what_would_break_a_reader_is_refused_with_its_path(raw: str, expected: list[str]) -> None:
    """windmill-labs/windmill#10274: a U+0000 could never be stored, and was tried again and again (N4)."""
    assert paths(raw) == expected


def test_bytes_that_are_no_text_are_refused() -> None:
    faults = Faults()
    job_payload.read(msgspec.Raw(b'"\xff"'), "/payload", faults)
    assert len(faults) == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": float("inf")}, ["/payload/a"]),
        ([float("nan")], ["/payload/0"]),
        ({"when": date(2026, 1, 1)}, ["/payload/when"]),
        ({1: "x"}, ["/payload/1"]),
        ("a\0", ["/payload"]),
        ({"n": 10**1001}, ["/payload/n"]),
        ({"s": {1, 2}}, ["/payload/s"]),
    ],
)
def test_values_from_yaml_and_python_are_looked_through_too(value: Any, expected: list[str]) -> None:
    faults = Faults()
    job_payload.read(value, "/payload", faults)
    with pytest.raises(errors.InvalidError) as raised:
        faults.raise_all()
    assert [fault.pointer for fault in raised.value.faults] == expected


def test_values_are_written_compactly() -> None:
    assert job_payload.read({"é": [1, 2.5, None]}, "/payload", Faults()) == '{"é":[1,2.5,null]}'


def test_a_nest_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    faults = Faults()
    job_payload.read(endless, "/payload", faults)
    assert len(faults) == 1


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=10,
    ),
    st.booleans(),
)
def test_the_quick_look_finds_what_the_close_look_finds(value: Any, ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only)
    close = list(job_payload._complaints(value, "/payload"))
    if close:
        assert paths(raw) == [path for path, _ in close]
    else:
        assert read(raw) == raw
