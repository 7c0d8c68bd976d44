"""Every random choice of a simulation, from one seed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A seeded source of accidents."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.between = self._random.uniform
        self.integer = self._random.randint
        self.bytes = self._random.randbytes
        self.bits = self._random.getrandbits

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return probability > 0 and self._random.random() < probability

    def one_of(self, options: Sequence[T]) -> T:
        """One of several."""
        return self._random.choice(options)

    def in_some_order(self, items: Sequence[T]) -> list[T]:
        """In an order that nobody promised."""
        shuffled = list(items)
        self._random.shuffle(shuffled)
        return shuffled

    def short(self) -> float:
        """How long a small thing takes on a good day, in seconds: mostly a millisecond, now and then fifty."""
        return self._random.uniform(0.02, 0.05) if self._random.random() < 0.02 else self._random.uniform(0.0002, 0.002)

    @contextmanager
    def in_charge(self) -> Iterator[None]:
        """Let the random numbers of the code under test come from here, too."""
        kept = secrets.token_bytes, secrets.randbits, random.getstate()
        secrets.token_bytes, secrets.randbits = self.bytes, self.bits  # type: ignore[assignment]
        random.seed(self.bits(64))
        try:
            yield
        finally:
            secrets.token_bytes, secrets.randbits = kept[:2]
            random.setstate(kept[2])
