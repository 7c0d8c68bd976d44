"""The version of the worker protocol.

It rises when a member changes its meaning or goes away. New members with a default do not raise it: both sides leave
unknown members alone. A worker names the version it speaks in the header `Horarium-Protocol`.
"""

from __future__ import annotations

PROTOCOL_VERSION = 1
HEADER = "Horarium-Protocol"
