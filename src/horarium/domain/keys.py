"""API keys: `hrm_<env>_<id>_<secret><crc>`.

* `env` says what the key is for (`live`, `dev`, …), so that a person sees when one is used in the wrong place.
* `id` (12 characters) is public: it stands in lists and in the audit, and finds the row.
* `secret` (32 characters, 190 bits) is never stored; the row holds the SHA-256 of the whole token. A slow hash is for
  passwords that people choose; 190 random bits cannot be guessed.
* `crc` (6 characters) is the CRC-32 of all before it: secret scanners and we ourselves tell a real key from a typo
  without asking the database.

Characters are 0–9, A–Z, a–z, so that a double click selects the whole token.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass, field

PREFIX = "hrm"
ENTROPY_BYTES = 40

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 12
_SECRET_LENGTH = 32
_CRC_LENGTH = 6
_ENV = re.compile(r"[a-z][a-z0-9]{0,15}")
_TOKEN = re.compile(
    rf"{PREFIX}_({_ENV.pattern})_([0-9A-Za-z]{{{_ID_LENGTH}}})_"
    rf"([0-9A-Za-z]{{{_SECRET_LENGTH}}})([0-9A-Za-z]{{{_CRC_LENGTH}}})"
)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key. `token` is what a client sends; it and the secret stay out of `repr`, and so out of logs."""

    env: str
    id: str
    token: str = field(repr=False)


def mint(env: str, entropy: bytes) -> ApiKey:
    """The key that these 40 random bytes make. `env` is 1 to 16 lower-case letters and digits, a letter first."""
    if not _ENV.fullmatch(env):
        raise ValueError(f"{env!r} is not 1 to 16 lower-case letters and digits with a letter first")
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError(f"{len(entropy)} bytes of entropy instead of {ENTROPY_BYTES}")
    drawn = _base62(int.from_bytes(entropy, "big"), _ID_LENGTH + _SECRET_LENGTH)
    identifier, secret = drawn[:_ID_LENGTH], drawn[_ID_LENGTH:]
    body = f"{PREFIX}_{env}_{identifier}_{secret}"
    return ApiKey(env, identifier, body + _crc(body))


def parse(token: str) -> ApiKey | None:
    """The key that a token is, or None when it is none: wrong shape or wrong check sum."""
    match = _TOKEN.fullmatch(token)
    if match is None or _crc(token[:-_CRC_LENGTH]) != match[4]:
        return None
    return ApiKey(match[1], match[2], token)


def digest(token: str) -> bytes:
    """What is stored of a token: its SHA-256."""
    return hashlib.sha256(token.encode()).digest()


def _crc(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), _CRC_LENGTH)


def _base62(number: int, length: int) -> str:
    """The last `length` base-62 digits of a number, most significant first."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
