"""How long to wait before a server that did not answer is asked again."""

from __future__ import annotations

import random
from collections.abc import Callable


class Backoff:
    """Waits that double from `base_s` up to `cap_s`.

    Each is spread over its upper half, so that a fleet does not come at once. `draw` gives a number in [0, 1).
    """

    def __init__(self, base_s: float = 0.1, cap_s: float = 5.0, draw: Callable[[], float] = random.random) -> None:
        self._base_s = base_s
        self._cap_s = cap_s
        self._draw = draw
        self._failures = 0

    def next_s(self) -> float:
        """Seconds to wait after one more failure."""
        full: float = min(self._cap_s, self._base_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return full * (0.5 + 0.5 * self._draw())

    def reset(self) -> None:
        """It worked: the next failure waits briefly again."""
        self._failures = 0
