"""Where the next page of a list begins, as a token that only we can make.

    base64url( compact JSON array of the key values · first 16 bytes of HMAC-SHA-256(secret, scope · 0 · JSON) )

Signed, because a client that learns to build cursors has tied itself to the table's keys. `scope` names the list, the
tenant and the filters: it is signed but not carried, so a cursor used with another filter or by another tenant is
refused instead of giving a page that makes no sense.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence

from horarium import errors

_SIGNATURE_BYTES = 16
_MAX_LENGTH = 1024

Key = str | int


def encode(secret: bytes, scope: str, values: Sequence[Key]) -> str:
    """The cursor that stands for these key values in this list."""
    text = json.dumps(list(values), separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(text + _sign(secret, scope, text)).rstrip(b"=").decode()


def decode(secret: bytes, scope: str, cursor: str) -> list[Key]:
    """The key values of a cursor that `encode` made with the same secret and scope; else InvalidError."""
    text = _verified(secret, scope, cursor)
    if text is None:
        detail = "this is not a cursor of this list with these filters; start again without a cursor"
        raise errors.InvalidError([errors.Fault("/query/cursor", detail, "invalid_cursor")])
    values: list[Key] = json.loads(text)
    return values


def _verified(secret: bytes, scope: str, cursor: str) -> bytes | None:
    if len(cursor) > _MAX_LENGTH or not cursor.isascii():
        return None
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    text, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
    return text if hmac.compare_digest(signature, _sign(secret, scope, text)) else None


def _sign(secret: bytes, scope: str, text: bytes) -> bytes:
    return hmac.digest(secret, scope.encode() + b"\0" + text, hashlib.sha256)[:_SIGNATURE_BYTES]
