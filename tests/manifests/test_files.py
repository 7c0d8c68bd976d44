from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horarium import errors
from horarium.manifests import reader, writer, yaml_text
from horarium.manifests.manifest import Manifest


def pointers(text: str) -> list[str]:
    with pytest.raises(errors.InvalidError) as caught:
        reader.read(text)
    return [fault.pointer for fault in caught.value.faults]


def test_yaml_is_that_of_version_1_2() -> None:
    text = "{on: yes, no: 12:30, run_at: 2026-12-01T02:00:00Z, n: 010, t: true, f: 1.5, e: 1e3, x: ~, s: 0x1F}"
    assert yaml_text.load(text) == {
        "on": "yes",
        "no": "12:30",
        "run_at": "2026-12-01T02:00:00Z",
        "n": 10,
        "t": True,
        "f": 1.5,
        "e": 1000.0,
        "x": None,
        "s": "0x1F",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: 1\na: 2", "line 2"), ("a: [1", "line 1"), ("a: \x00", "special characters are not allowed")],
)
def test_broken_yaml_is_told_with_its_line(text: str, place: str) -> None:
    with pytest.raises(ValueError, match=place):
        yaml_text.load(text)


def test_yaml_makes_no_objects() -> None:
    with pytest.raises(ValueError, match="could not determine a constructor"):
        yaml_text.load("!!python/object/apply:os.system [echo]")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_is_written_reads_back(value: object) -> None:
    assert yaml_text.load(yaml_text.dump(value)) == value


def test_defaults_fill_in_what_a_job_does_not_say() -> None:
    found = reader.read(
        """
apiVersion: horarium/v1
manifest: billing
defaults: {timezone: Asia/Kolkata, retry: {max_attempts: 2}}
jobs:
  - {name: a, schedule: "0 2 * * *", target: {handler: a}}
  - {name: b, schedule: "0 2 * * *", target: {handler: b}, timezone: UTC, retry: {base_s: 1}}
"""
    )
    first, second = found.resolved()
    assert first["timezone"] == "Asia/Kolkata"
    assert (second["timezone"], second["retry"]) == ("UTC", {"base_s": 1})


def test_every_fault_of_the_frame_is_told_at_once() -> None:
    text = "apiVersion: v2\nmanifests: x\ndefaults: 3\njobs: [{name: a}, {name: a}, {schedule: x}, 7]"
    assert pointers(text) == [
        "/manifests",
        "/apiVersion",
        "/manifest",
        "/defaults",
        "/jobs/1/name",
        "/jobs/2/name",
        "/jobs/3",
    ]
    assert pointers("[]") == [""]
    assert pointers("a: [") == [""]
    assert pointers("apiVersion: horarium/v1\nmanifest: x") == ["/jobs"]


def test_a_file_may_hold_one_job_or_several() -> None:
    assert reader.read_jobs('{"name": "a"}') == [({"name": "a"}, None)]
    assert reader.read_jobs("name: a\npayload: {x: 1}") == [({"name": "a"}, '{"x": 1}')]
    assert reader.read_jobs("{name: a, payload: [1]}") == [({"name": "a"}, "[1]")]
    assert reader.read_jobs("- name: a\n- name: b") == [({"name": "a"}, None), ({"name": "b"}, None)]
    manifest = "apiVersion: horarium/v1\nmanifest: m\ndefaults: {queue: q}\njobs: [{name: a}]"
    assert reader.read_jobs(manifest) == [({"queue": "q", "name": "a"}, None)]
    with pytest.raises(errors.InvalidError):
        reader.read_jobs("just words")


def test_the_payload_of_a_json_file_is_kept_digit_for_digit() -> None:
    text = '{"name": "a", "payload": {"n": 12345678901234567890123, "x": 1.10, "y": 1e2}, "queue": "q"}'
    ((members, payload),) = reader.read_jobs(text)
    assert members == {"name": "a", "queue": "q"}
    assert payload == '{"n": 12345678901234567890123, "x": 1.10, "y": 1e2}'


def test_a_manifest_is_written_with_a_heading() -> None:
    text = writer.write(Manifest("m", [{"name": "a", "schedule": "*/5 * * * *"}], {"queue": "q"}), ["One.", "Two."])
    assert text.startswith("# One.\n# Two.\napiVersion: horarium/v1\nmanifest: m\ndefaults:\n  queue: q\njobs:\n")
