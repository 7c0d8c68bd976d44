"""What the tests of commands share: reading an answer, and looking until it is so."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

Seen = TypeVar("Seen")


def read(text: str) -> Any:
    """The JSON that a command printed."""
    return json.loads(text)


def shown_within(seconds: float, look: Callable[[], Seen]) -> Seen:
    """What a look shows once it shows something: what others do in their own time, such as nodes noting workers."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline
        threading.Event().wait(0.1)
    return seen
