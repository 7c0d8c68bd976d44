"""API keys: who is asking.

A key is looked up by its public id and compared by hash in constant time. What was found is remembered for five
seconds, so a revoked key lives at most that long on other nodes; here it ends at once. While the home database cannot be
asked, what was found in the last five minutes counts: workers and clients that were there go on, nobody new comes in."""

from __future__ import annotations

import asyncio
import hmac
import secrets
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import asyncpg
import msgspec

from horarium import errors
from horarium.domain import job, keys, roles
from horarium.store import api_keys, audit
from horarium.store.database import Database

DEFAULT_TENANT = "default"
REMEMBERED_S = 5.0
# While the home database cannot be asked: no key can be revoked there either.
TRUSTED_S = 300.0
ASK_WITHIN_S = 1.0
NOT_ASKED_FOR_S = 1.0

_REMEMBERED_KEYS = 10_000
_MAX_NAMESAKES = 2
_MAX_NAME = 200
_NOBODY = bytes(32)
_MALFORMED = "this is not an API key of Horarium (hrm_<env>_<id>_<secret>)"
_REFUSED = "the API key is unknown, revoked or expired"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key to be made. `env` is the word that its token carries."""

    tenant_id: str
    role: str
    name: str = ""
    expires_at: datetime | None = None
    env: str = "live"


@dataclass(frozen=True, slots=True)
class Issued:
    """A key just made: its row, and the token, which nobody can show a second time."""

    row: api_keys.KeyRow
    token: str


@dataclass(frozen=True, slots=True)
class _Remembered:
    credential: api_keys.Credential | None
    until: float
    trusted_until: float


class Keys:
    """Makes, checks, lists and revokes API keys. `monotonic` counts the seconds for which a look-up is remembered."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        self._remembered: dict[str, _Remembered] = {}
        self._silent_until = 0.0

    async def authenticate(self, token: str) -> job.Actor:
        """The actor that a token stands for; UnauthenticatedError when it is none, unknown, revoked or expired."""
        presented = keys.parse(token)
        if presented is None:
            raise errors.UnauthenticatedError(_MALFORMED)
        credential = await self._credential(presented.id)
        matches = hmac.compare_digest(credential.hash if credential else _NOBODY, keys.digest(token))
        if credential is None or not matches or not _is_live(credential):
            raise errors.UnauthenticatedError(_REFUSED)
        return job.Actor(credential.tenant_id, _actor_name(credential), credential.role)

    async def issue(self, who: job.Actor, wanted: Wanted) -> Issued:
        """Make a key. InvalidError names what is wrong; ConflictError when two live keys carry the name already."""
        wanted = _checked(wanted, await self._database.now())
        async with self._database.transaction() as connection:
            await api_keys.lock(connection)
            namesakes = await api_keys.count_live_namesakes(connection, wanted.tenant_id, wanted.name)
            if wanted.name and namesakes >= _MAX_NAMESAKES:
                detail = f"two live keys are named {wanted.name!r}, one to use and one to rotate to: revoke one first"
                raise errors.ConflictError(detail, "too_many_keys")
            return await _insert(connection, who, wanted)

    async def create(self, tenant_id: str, role: str, name: str = "", expires_at: datetime | None = None) -> str:
        """Make a key in the name of the installation itself; returns its token."""
        return (await self.issue(_system(tenant_id), Wanted(tenant_id, role, name, expires_at))).token

    async def ensure_first_key(self, env: str = "live") -> str | None:
        """The token of a new admin key when there is no key at all, else None; several nodes may ask at once."""
        async with self._database.transaction() as connection:
            await api_keys.lock(connection)
            if await api_keys.any_exists(connection):
                return None
            wanted = Wanted(DEFAULT_TENANT, roles.Role.ADMIN, "first", env=env)
            return (await _insert(connection, _system(DEFAULT_TENANT), wanted)).token

    async def page(self, who: job.Actor, after: tuple[datetime, str] | None, limit: int) -> list[api_keys.KeyRow]:
        """The keys of the actor's tenant, newest first, ended ones too."""
        async with self._database.connection() as connection:
            return await api_keys.page(connection, who.tenant_id, after, limit)

    async def revoke(self, who: job.Actor, key_id: str) -> None:
        """End a key of the actor's tenant for good; twice changes nothing. NotFoundError when there is none."""
        async with self._database.transaction() as connection:
            row = await api_keys.revoke(connection, who.tenant_id, key_id)
            if row is None:
                raise errors.NotFoundError(f"there is no API key {key_id!r}")
            await audit.record(connection, who, "revoke", "api_key", key_id, after=_described(row))
        self._remembered.pop(key_id, None)

    async def _credential(self, key_id: str) -> api_keys.Credential | None:
        now = self._monotonic()
        known = self._remembered.get(key_id)
        if known is not None and now < known.until:
            return known.credential
        trusted = known is not None and known.credential is not None and now < known.trusted_until
        if known is not None and trusted and now < self._silent_until:
            return known.credential
        try:
            async with asyncio.timeout(ASK_WITHIN_S if trusted else None), self._database.connection() as connection:
                found = await api_keys.find(connection, key_id)
        except (errors.UnavailableError, TimeoutError):
            if known is None or not trusted:
                raise
            self._silent_until = now + NOT_ASKED_FOR_S
            return known.credential
        self._remember(key_id, found, now)
        return found

    def _remember(self, key_id: str, found: api_keys.Credential | None, asked_at: float) -> None:
        """Keep what was found, never beyond the key's own end. The oldest is forgotten first when there are many."""
        lasts, trusted = REMEMBERED_S, TRUSTED_S
        if found is not None and found.expires_in_s is not None:
            lasts, trusted = (max(0.0, min(each, found.expires_in_s)) for each in (lasts, trusted))
        if found is None or not _is_live(found):
            trusted = 0.0
        self._remembered.pop(key_id, None)
        self._remembered[key_id] = _Remembered(found, asked_at + lasts, asked_at + trusted)
        if len(self._remembered) > _REMEMBERED_KEYS:
            del self._remembered[next(iter(self._remembered))]


async def _insert(connection: asyncpg.Connection, who: job.Actor, wanted: Wanted) -> Issued:
    key = keys.mint(wanted.env, secrets.token_bytes(keys.ENTROPY_BYTES))
    row = await api_keys.insert(
        connection,
        key_id=key.id,
        tenant_id=wanted.tenant_id,
        name=wanted.name,
        role=wanted.role,
        digest=keys.digest(key.token),
        created_by=who.name,
        expires_at=wanted.expires_at,
    )
    await audit.record(connection, who, "create", "api_key", key.id, after=_described(row))
    return Issued(row, key.token)


def _checked(wanted: Wanted, now: datetime) -> Wanted:
    """The key with its name in normal form (NFC); every fault is named."""
    name = unicodedata.normalize("NFC", wanted.name)
    faults = []
    if wanted.role not in list(roles.Role):
        known = ", ".join(roles.Role)
        faults.append(errors.Fault("/role", f"{wanted.role!r} is no role; roles are {known}", "unknown_role"))
    if len(name) > _MAX_NAME or any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        detail = f"a name has at most {_MAX_NAME} characters and no control characters"
        faults.append(errors.Fault("/name", detail, "invalid_name"))
    if wanted.expires_at is not None and wanted.expires_at <= now:
        faults.append(errors.Fault("/expires_at", "this is in the past", "expires_at_in_past"))
    if faults:
        raise errors.InvalidError(faults)
    return Wanted(wanted.tenant_id, wanted.role, name, wanted.expires_at, wanted.env)


def _is_live(credential: api_keys.Credential) -> bool:
    return not credential.revoked and (credential.expires_in_s is None or credential.expires_in_s > 0)


def _actor_name(credential: api_keys.Credential) -> str:
    """How the key is called in the audit: by name for people, with the id because names may be used again."""
    return f"{credential.name or 'key'}/{credential.id}"


def _system(tenant_id: str) -> job.Actor:
    return job.Actor(tenant_id, "system", roles.Role.ADMIN)


def _described(row: api_keys.KeyRow) -> str:
    return msgspec.json.encode(row).decode()
