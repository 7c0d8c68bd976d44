"""For tests of applications: run handlers without a server, see what was enqueued, move a clock by hand."""

from __future__ import annotations

from horarium.testing.clock import ManualClock
from horarium.testing.factories import lease
from horarium.testing.inline import InlineRun, InlineWorker
from horarium.testing.outbox import Outbox

__all__ = ["InlineRun", "InlineWorker", "ManualClock", "Outbox", "lease"]
