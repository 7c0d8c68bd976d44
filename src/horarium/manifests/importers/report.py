"""What an importer hands back: a manifest, and a finding for each thing that a person should know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from horarium.manifests import manifest


class Kind(StrEnum):
    """What became of a line."""

    IMPORTED = "imported"
    CHANGED = "changed"
    REFUSED = "refused"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Finding:
    """`line` counts from 1; 0 stands for the file as a whole."""

    line: int
    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Import:
    """The jobs that came out of a file, and the findings in the order of its lines."""

    manifest: manifest.Manifest
    findings: Sequence[Finding]

    def count(self, kind: Kind) -> int:
        """How many findings are of a kind."""
        return sum(finding.kind is kind for finding in self.findings)
