"""The one error tree of Horarium.

    HorariumError
    ├── InvalidError                 the input is wrong: every fault of it is named      422
    │   └── InvalidScheduleError     a schedule that is refused or never fires           422
    ├── NotFoundError                no such thing, or not yours to see                  404
    ├── ConflictError                it is not in a state that allows this               409
    ├── StaleVersionError            If-Match named an older version                     412
    ├── TooLargeError                over a stated size                                  413
    ├── UnauthenticatedError         no key, or an unknown one                           401
    ├── ForbiddenError               the key's role does not allow this                  403
    ├── OverLimitError               a quota or the back-pressure limit                  429
    ├── UnavailableError             the database cannot be asked right now              503
    │   ├── ShardMovedError          the shard lives, or is about to live, in another database   503
    │   └── TooBroadError            a list would read too much; a narrower one is answered  503
    ├── ConfigurationError           the settings are wrong, every fault is named
    ├── EmbeddedPostgresError        the embedded PostgreSQL cannot start
    └── client side
        ├── UnreachableError         no server answered
        ├── RequestError             the server refused: carries the problem document
        └── LeaseLostError           the run is no longer this worker's

Expected results (a report that came too late, a lease with no runs) are values, not errors.
Errors are turned into something else at three boundaries only: HTTP (`api.problems`), the command line (`cli.main`) and
the worker's executor (`sdk.executor`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class HorariumError(Exception):
    """Base of all errors of Horarium. `title` is one line for people, without values."""

    title = "Something went wrong"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input.

    `pointer` is a JSON Pointer (RFC 6901) into the body, such as `/retry/max_attempts`; `detail` says what is wrong and,
    where one is known, what to write instead; `code` is a stable word for programs (`never_fires`, `run_at_in_past`, …).
    """

    pointer: str
    detail: str
    code: str = "invalid"


class InvalidError(HorariumError):
    """The input is wrong; `faults` holds every fault, not only the first."""

    title = "The input is not valid"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(f"{fault.pointer}: {fault.detail}" for fault in self.faults))


class InvalidScheduleError(InvalidError):
    """A schedule is refused, or never fires.

    `field` names what is wrong (`minute`, `hour`, `day of month`, `month`, `day of week`, `second`, `schedule`,
    `timezone`, …); `hint` says what to write instead, or is empty; `code` is a stable word
    (`invalid_schedule`, `never_fires`, `invalid_timezone`, …). `pointer` is where the value stands in a job's body.
    """

    title = "The schedule is not valid"

    def __init__(
        self, field: str, detail: str, hint: str = "", *, code: str = "invalid_schedule", pointer: str = "/schedule"
    ) -> None:
        self.field = field
        self.detail = detail
        self.hint = hint
        self.code = code
        named = detail if pointer == f"/{field}" else f"{field}: {detail}"
        text = named + (f" ({hint})" if hint else "")
        super().__init__([Fault(pointer, text, code)])


class NotFoundError(HorariumError):
    """There is no such thing in this tenant."""

    title = "Not found"


class ConflictError(HorariumError):
    """The thing exists already, or is in a state that does not allow this. `code` is a stable word."""

    title = "Conflict"

    def __init__(self, detail: str, code: str = "conflict") -> None:
        self.code = code
        super().__init__(detail)


class StaleVersionError(HorariumError):
    """`If-Match` named a version that is no longer the current one."""

    title = "The version is stale"


class TooLargeError(HorariumError):
    """A body, payload or result is over its limit."""

    title = "Too large"


class UnauthenticatedError(HorariumError):
    """No API key, or one that is unknown, revoked or expired."""

    title = "Authentication is needed"


class ForbiddenError(HorariumError):
    """The key's role does not allow this."""

    title = "Not allowed"


class OverLimitError(HorariumError):
    """A quota, rate or back-pressure limit is reached; try again after `retry_after_s` seconds."""

    title = "Over a limit"

    def __init__(self, detail: str, retry_after_s: float = 1.0) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(detail)


class UnavailableError(HorariumError):
    """The database cannot be asked right now; the same request may be sent again."""

    title = "Not available right now"


class ShardMovedError(UnavailableError):
    """The shard does not live in this database, or is on its way to another one: seconds later it is found there."""

    title = "The shard is being moved"


class TooBroadError(UnavailableError):
    """A list would have to read too much; a narrower filter is answered."""

    title = "The filter is too broad"


class ConfigurationError(HorariumError):
    """The settings are wrong; the message names every fault."""

    title = "The configuration is not valid"


class EmbeddedPostgresError(HorariumError):
    """The embedded PostgreSQL cannot start, or its data directory is in use."""

    title = "The embedded PostgreSQL cannot start"


class UnreachableError(HorariumError):
    """No server answered at the address."""

    title = "The server cannot be reached"


class RequestError(HorariumError):
    """The server refused a request. `status` is the HTTP status, `problem` the problem document (RFC 9457)."""

    title = "The server refused the request"

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        super().__init__(self._describe())

    def _describe(self) -> str:
        title = str(self.problem.get("title") or f"HTTP {self.status}")
        text = str(self.problem.get("detail") or title)
        faults = [f"{each.get('pointer', '')}: {each.get('detail', '')}" for each in self.problem.get("errors") or []]
        if text == "; ".join(faults):  # it names them already
            if len(faults) == 1:
                return text
            text = title
        return "\n  ".join([text, *faults])


class LeaseLostError(HorariumError):
    """The run was given to another worker, cancelled or ended; what this attempt reports changes nothing."""

    title = "The lease was lost"
