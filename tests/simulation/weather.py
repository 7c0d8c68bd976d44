"""What befalls connections and messages, and how often. Calm when all is zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Weather:
    """Probabilities, for each statement or each message."""

    lost_before: float = 0.0  # the connection breaks, the statement was never carried out
    lost_after: float = 0.0  # it was carried out, committed where it stood alone, and its answer was lost
    lost_at_commit: float = 0.0  # a COMMIT whose answer is lost: half of them went through
    slow: float = 0.0  # an answer that takes up to two seconds
    message_lost: float = 0.0
    answer_lost: float = 0.0
    message_doubled: float = 0.0
    message_late: float = 0.0  # up to five seconds, so that it arrives after later ones

    def clear(self) -> None:
        """All is well from now on."""
        for name in self.__dataclass_fields__:
            setattr(self, name, 0.0)
