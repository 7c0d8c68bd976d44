"""A manifest: the jobs that one file owns, with what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

API_VERSION = "horarium/v1"

Members = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`defaults` stand in each job that does not say otherwise; `jobs` are bodies as the REST API takes them."""

    name: str
    jobs: Sequence[Members]
    defaults: Members = field(default_factory=dict)

    def resolved(self) -> list[dict[str, Any]]:
        """The jobs with the defaults filled in; a member that a job names replaces the default whole."""
        return [{**self.defaults, **job} for job in self.jobs]

    def as_value(self) -> dict[str, Any]:
        """The manifest as it stands in a file."""
        value: dict[str, Any] = {"apiVersion": API_VERSION, "manifest": self.name}
        if self.defaults:
            value["defaults"] = dict(self.defaults)
        return {**value, "jobs": [dict(job) for job in self.jobs]}
