"""The verdict on a tick whose instant comes while an earlier run of its job is live."""

from __future__ import annotations

import pytest

from horarium.domain.overlap import Overlap, Verdict, judge


@pytest.mark.parametrize("rule", list(Overlap))
def test_a_tick_starts_when_nothing_is_live(rule: Overlap) -> None:
    assert judge(rule, 0, 0) is Verdict.START


@pytest.mark.parametrize(
    ("rule", "live", "held", "verdict"),
    [
        (Overlap.ALLOW, 5, 0, Verdict.START),
        (Overlap.SKIP, 1, 0, Verdict.SKIP),
        (Overlap.QUEUE_ALL, 1, 0, Verdict.HOLD),
        (Overlap.QUEUE_ALL, 1, 7, Verdict.HOLD),
        (Overlap.QUEUE_ONE, 1, 0, Verdict.HOLD),
        (Overlap.QUEUE_ONE, 1, 1, Verdict.REPLACE_HELD),
        (Overlap.CANCEL_RUNNING, 1, 0, Verdict.CANCEL_AND_HOLD),
        (Overlap.CANCEL_RUNNING, 1, 1, Verdict.CANCEL_AND_HOLD),
        (Overlap.SKIP, 0, 1, Verdict.SKIP),
    ],
)
def test_each_rule_has_its_verdict(rule: Overlap, live: int, held: int, verdict: Verdict) -> None:
    assert judge(rule, live, held) is verdict
