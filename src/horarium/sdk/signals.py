"""What a handler raises to say how its run goes on, and the retry policy of a job.

raise Retry("rate limited", in_="5m")    again later, as a further attempt
raise Discard("no such user")            never again: straight to the dead letters
raise Snooze("1h")                       later, and no attempt is used (at most 100 in a row)
"""

from __future__ import annotations

from typing import Any, Literal, overload

from horarium.sdk import spans


class Signal(Exception):  # noqa: N818 - an instruction to the scheduler, not a fault
    """Base of what a handler may raise to say how its run goes on."""


class Retry(Signal):
    """One word for two places: the retry policy of a job, and "try this run again".

    As a policy, `Retry(5, base="10s")`: at most five attempts, the first back-off ten seconds. What is not given keeps
    the server's default (4 attempts, exponential from 10 s by factor 2 up to 1 h, spread by ±20 %). `window` bounds the
    time from the first attempt.

    Raised, `Retry("rate limited", in_="5m")`: this attempt failed, the next one comes in five minutes; without `in_`
    after the policy's back-off.
    """

    @overload
    def __init__(
        self,
        max_attempts: int,
        /,
        *,
        base: spans.Duration | None = None,
        backoff: Literal["exponential", "linear", "fixed"] | None = None,
        factor: float | None = None,
        max: spans.Duration | None = None,
        jitter: float | None = None,
        window: spans.Duration | None = None,
    ) -> None: ...

    @overload
    def __init__(self, reason: str = "", /, *, in_: spans.Duration | None = None) -> None: ...

    def __init__(
        self,
        first: int | str = "",
        /,
        *,
        in_: spans.Duration | None = None,
        base: spans.Duration | None = None,
        backoff: str | None = None,
        factor: float | None = None,
        max: spans.Duration | None = None,  # noqa: A002 - reads as people say it: Retry(5, max="1h")
        jitter: float | None = None,
        window: spans.Duration | None = None,
    ) -> None:
        self.reason = first if isinstance(first, str) else ""
        self.in_s = None if in_ is None else spans.seconds(in_)
        given = {
            "max_attempts": None if isinstance(first, str) else first,
            "backoff": backoff,
            "base_s": None if base is None else spans.seconds(base),
            "factor": factor,
            "max_s": None if max is None else spans.seconds(max),
            "jitter": jitter,
            "retry_window_s": None if window is None else spans.seconds(window),
        }
        self._policy = {name: value for name, value in given.items() if value is not None}
        super().__init__(self.reason or "the handler asked for another attempt")

    def policy(self) -> dict[str, Any]:
        """The members of a job's `retry` that were given; ValueError for a `Retry` that is meant to be raised."""
        if self.reason or self.in_s is not None:
            raise ValueError(
                'a retry policy counts attempts: Retry(5, base="10s"); in_= is for `raise Retry(in_="5m")`'
            )
        return dict(self._policy)


class Discard(Signal):
    """This run can never succeed: no more attempts. `reason` stands in the dead letter."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "the handler discarded the run")


class Snooze(Signal):
    """Not now: the run comes again after `delay`, without having used an attempt."""

    def __init__(self, delay: spans.Duration, reason: str = "") -> None:
        self.reason = reason
        self.delay_s = spans.seconds(delay)
        super().__init__(reason or f"snoozed for {self.delay_s:g} s")
