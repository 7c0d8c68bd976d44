"""Signing requests as Standard Webhooks 1.0.0 has it, symmetric variant.

webhook-signature: v1,base64(HMAC-SHA-256(secret, "<webhook-id>.<webhook-timestamp>.<body>"))
"""

from __future__ import annotations

import base64
import hashlib
import hmac

PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """The bytes of a secret: Base64 behind `whsec_`, any other text as it is (UTF-8)."""
    if secret.startswith(PREFIX):
        return base64.b64decode(secret.removeprefix(PREFIX) + "==")  # padding may be left out; too much is ignored
    return secret.encode()


def headers(secret: str, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers that let a receiver check who sent this body. `timestamp` in Unix seconds."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.digest(key_of(secret), signed, hashlib.sha256)).decode()
    return {**identity(message_id, timestamp), "webhook-signature": f"v1,{signature}"}


def identity(message_id: str, timestamp: int) -> dict[str, str]:
    """The two of them that need no secret."""
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
