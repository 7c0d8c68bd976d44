"""The worker's wire: shapes, defaults left out, limits, and that payloads pass through digit for digit."""

from __future__ import annotations

import json

import msgspec
import pytest

from horarium.protocol import messages

WORKER = messages.WorkerInfo("w1")


def a_lease(**changes: object) -> messages.Lease:
    lease = messages.Lease(
        run_id="01", job_id="02", attempt=1, fencing_token=7, target=msgspec.Raw(b'{"handler":"email.welcome"}'),
        payload=msgspec.Raw(b'{"n":123456789012345678901234567890}'), scheduled_for="2026-12-01T02:00:00Z",
        timeout_s=300, lease_s=15,
    )  # fmt: skip
    return msgspec.structs.replace(lease, **changes)


def test_members_equal_to_their_default_are_left_out() -> None:
    text = messages.encode(messages.LeaseRequest(WORKER, [messages.QueueWeight("default")], slots=20))
    assert json.loads(text) == {"worker": {"id": "w1"}, "queues": [{"name": "default"}], "slots": 20}


def test_payload_and_target_pass_through_as_they_were_written() -> None:
    text = messages.encode(messages.LeaseResponse([a_lease()]))
    assert b'"payload":{"n":123456789012345678901234567890}' in text
    (lease,) = messages.lease_responses.decode(text).leases
    assert bytes(lease.payload) == b'{"n":123456789012345678901234567890}'
    assert messages.targets.decode(lease.target).handler == "email.welcome"


def test_a_lease_response_built_elsewhere_is_read() -> None:
    response = messages.lease_responses.decode(
        b'{"leases": [{"run_id": "r", "job_id": "j", "job_name": null, "attempt": 2, "fencing_token": 9, "later": [1],'
        b' "target": {"http": {"url": "https://example.com"}}, "payload": {}, "scheduled_for": "2026-12-01T02:00:00Z",'
        b' "start_in_s": 0.07, "timeout_s": 60, "lease_s": 15, "traceparent": null, "trigger": "manual"}],'
        b' "drain": true}'
    )
    assert response.drain
    assert response.leases[0].start_in_s == 0.07
    target = messages.targets.decode(response.leases[0].target)
    assert target.handler is None and isinstance(target.http, msgspec.Raw)


def test_class_is_the_member_name_of_an_error_class() -> None:
    result = messages.Result("r", 1, "failed", error=messages.ErrorInfo("ValueError", "no"))
    text = messages.encode(messages.ReportRequest(WORKER, [result]))
    assert json.loads(text)["results"][0]["error"] == {"class": "ValueError", "message": "no"}


def test_plain_successes_are_reported_as_columns() -> None:
    results = [
        messages.Result("a", 1, "succeeded"),
        messages.Result("b", 2, "succeeded", msgspec.Raw(b"null")),
        messages.Result("c", 3, "succeeded", logs=[messages.LogLine(1, 0.0, "said")]),
        messages.Result("d", 4, "succeeded", progress=messages.Progress(1.0)),
        messages.Result("e", 5, "interrupted"),
        messages.Result("f", 6, "succeeded"),
    ]
    report = messages.report_requests.decode(messages.encode(messages.report_of(WORKER, results)))
    assert report.succeeded == messages.Succeeded(["a", "f"], [1, 6])
    assert [result.run_id for result in report.results] == ["b", "c", "d", "e"]
    assert sorted(report.unfolded(), key=lambda result: result.run_id) == results


def test_a_report_without_plain_successes_has_no_columns() -> None:
    report = messages.report_of(WORKER, [messages.Result("a", 1, "interrupted")])
    assert json.loads(messages.encode(report)).keys() == {"worker", "results"}


def test_a_null_result_differs_from_none_at_all() -> None:
    decoded = messages.report_requests.decode(
        b'{"worker":{"id":"w"},"results":[{"run_id":"a","fencing_token":1,"outcome":"succeeded","result":null},'
        b'{"run_id":"b","fencing_token":1,"outcome":"succeeded"}]}'
    )
    assert [result.result is msgspec.UNSET for result in decoded.results] == [False, True]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b'{"worker":{"id":""},"queues":[{"name":"q"}],"slots":1}', "$.worker.id"),
        (b'{"worker":{"id":"w"},"queues":[],"slots":1}', "$.queues"),
        (b'{"worker":{"id":"w"},"queues":[{"name":"q"}],"slots":0}', "$.slots"),
        (b'{"worker":{"id":"w"},"queues":[{"name":"q"}],"slots":10001}', "$.slots"),
        (b'{"worker":{"id":"w"},"queues":[{"name":"q"}],"slots":1,"wait_s":61}', "$.wait_s"),
        (b'{"worker":{"id":"w"},"queues":[{"name":"q","weight":0}],"slots":1}', "$.queues[0].weight"),
    ],
)
def test_a_lease_request_outside_the_limits_is_refused(body: bytes, where: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        messages.lease_requests.decode(body)
    assert where in str(caught.value)


@pytest.mark.parametrize(
    "member", ['"outcome":"ok"', '"outcome":"snooze","retry_in_s":-1', '"outcome":"failed","progress":{"fraction":1.1}']
)
def test_a_result_outside_the_limits_is_refused(member: str) -> None:
    body = '{"worker":{"id":"w"},"results":[{"run_id":"a","fencing_token":1,' + member + "}]}"
    with pytest.raises(msgspec.ValidationError):
        messages.report_requests.decode(body.encode())
