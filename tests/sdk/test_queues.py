"""What `--queues` may say."""

from __future__ import annotations

import pytest

from horarium import errors
from horarium.protocol.messages import QueueWeight
from horarium.sdk import queues


@pytest.mark.parametrize(
    ("text", "weights", "strict"),
    [
        (None, [QueueWeight("default")], False),
        ("emails", [QueueWeight("emails")], False),
        ("critical=6, default=3,low=1", [QueueWeight("critical", 6), QueueWeight("default", 3), QueueWeight("low")], False),
        ("critical,default", [QueueWeight("critical"), QueueWeight("default")], True),
    ],
)  # fmt: skip
def test_weights_or_order(text: str | None, weights: list[QueueWeight], strict: bool) -> None:
    assert queues.parse(text) == (weights, strict)


@pytest.mark.parametrize("text", [",", "a=1,b", "a=0", "a=x", "a=", "=3", "a=1001", "a,a", "a=²"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="queue"):
        queues.parse(text)
