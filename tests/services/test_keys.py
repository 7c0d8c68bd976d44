"""API keys as a service: who is let in, for how long, and what the audit says."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from horarium import errors
from horarium.domain import job, keys
from horarium.services.keys import Keys, Wanted
from horarium.store import audit
from horarium.store.database import Database

ADMIN = job.Actor("acme", "ann", "admin", "192.0.2.1", "req-1")


class Seconds:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.value = 100.0

    def __call__(self) -> float:
        return self.value


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, pool_size=3)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def service(database: Database, seconds: Seconds) -> Keys:
    return Keys(database, monotonic=seconds)


async def test_a_key_stands_for_its_tenant_and_role(service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("acme", "operator", "night shift"))
    actor = await service.authenticate(issued.token)
    assert (actor.tenant_id, actor.role) == ("acme", "operator")
    assert actor.name == f"night shift/{issued.row.id}"


async def test_a_key_without_a_name_is_called_by_its_id(service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("acme", "viewer"))
    assert (await service.authenticate(issued.token)).name == f"key/{issued.row.id}"


@pytest.mark.parametrize("token", ["", "secret", "hrm_live_abc_def"])
async def test_what_is_no_key_is_refused(service: Keys, token: str) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="not an API key"):
        await service.authenticate(token)


async def test_a_key_that_nobody_made_is_refused(service: Keys) -> None:
    with pytest.raises(errors.UnauthenticatedError, match="unknown"):
        await service.authenticate(keys.mint("live", secrets.token_bytes(40)).token)


async def test_another_secret_under_a_known_id_is_refused(service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("acme", "admin"))
    entropy = secrets.token_bytes(40)
    forged = keys.mint("live", entropy).token.replace(keys.mint("live", entropy).id, issued.row.id)
    forged = next(
        token for token in (forged[:-6] + tail for tail in [keys._crc(forged[:-6])]) if keys.parse(token) is not None
    )
    with pytest.raises(errors.UnauthenticatedError, match="unknown"):
        await service.authenticate(forged)


async def test_a_revoked_key_ends_here_at_once_and_elsewhere_within_five_seconds(
    database: Database, service: Keys, seconds: Seconds
) -> None:
    elsewhere = Keys(database, monotonic=seconds)
    issued = await service.issue(ADMIN, Wanted("acme", "viewer"))
    await service.authenticate(issued.token)
    await elsewhere.authenticate(issued.token)
    await service.revoke(ADMIN, issued.row.id)
    with pytest.raises(errors.UnauthenticatedError):
        await service.authenticate(issued.token)
    seconds.value += 4.9
    await elsewhere.authenticate(issued.token)
    seconds.value += 0.2
    with pytest.raises(errors.UnauthenticatedError):
        await elsewhere.authenticate(issued.token)


async def test_a_known_key_is_not_looked_up_each_time(database: Database, service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("acme", "viewer"))
    await service.authenticate(issued.token)
    await database.close()
    assert (await service.authenticate(issued.token)).role == "viewer"


async def test_an_unknown_key_is_not_looked_up_each_time(database: Database, service: Keys) -> None:
    token = keys.mint("live", secrets.token_bytes(40)).token
    with pytest.raises(errors.UnauthenticatedError):
        await service.authenticate(token)
    await database.close()
    with pytest.raises(errors.UnauthenticatedError):
        await service.authenticate(token)


async def test_a_key_ends_when_it_expires_even_if_remembered(
    database: Database, service: Keys, seconds: Seconds
) -> None:
    expires_at = await database.now() + timedelta(seconds=4)
    issued = await service.issue(ADMIN, Wanted("acme", "viewer", expires_at=expires_at))
    await service.authenticate(issued.token)
    async with database.connection() as connection:
        await connection.execute("UPDATE api_keys SET expires_at = now() WHERE id = $1", issued.row.id)
    seconds.value += 2.0
    await service.authenticate(issued.token)
    seconds.value += 2.0
    with pytest.raises(errors.UnauthenticatedError):
        await service.authenticate(issued.token)


async def test_two_live_keys_of_a_name_allow_a_rotation_and_a_third_does_not(service: Keys) -> None:
    old = await service.issue(ADMIN, Wanted("acme", "worker", "fleet"))
    new = await service.issue(ADMIN, Wanted("acme", "worker", "fleet"))
    await service.authenticate(old.token)
    await service.authenticate(new.token)
    with pytest.raises(errors.ConflictError) as caught:
        await service.issue(ADMIN, Wanted("acme", "worker", "fleet"))
    assert caught.value.code == "too_many_keys"
    await service.revoke(ADMIN, old.row.id)
    await service.issue(ADMIN, Wanted("acme", "worker", "fleet"))


async def test_namesakes_in_another_tenant_do_not_count(service: Keys) -> None:
    for tenant in ("acme", "acme", "other"):
        await service.issue(ADMIN, Wanted(tenant, "worker", "fleet"))


async def test_all_faults_of_a_wanted_key_are_named(database: Database, service: Keys) -> None:
    past = await database.now() - timedelta(days=1)
    with pytest.raises(errors.InvalidError) as caught:
        await service.issue(ADMIN, Wanted("acme", "root", "a\x00b", past))
    assert [fault.pointer for fault in caught.value.faults] == ["/role", "/name", "/expires_at"]


async def test_a_key_of_another_tenant_cannot_be_revoked_or_seen(service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("other", "viewer"))
    with pytest.raises(errors.NotFoundError):
        await service.revoke(ADMIN, issued.row.id)
    assert await service.page(ADMIN, None, 10) == []
    await service.authenticate(issued.token)


async def test_keys_are_listed_newest_first_page_by_page(service: Keys) -> None:
    made = [(await service.issue(ADMIN, Wanted("acme", "viewer", f"key {n}"))).row for n in range(3)]
    first = await service.page(ADMIN, None, 2)
    rest = await service.page(ADMIN, (first[-1].created_at, first[-1].id), 2)
    assert [*first, *rest] == made[::-1]


async def test_the_first_key_is_made_once_whoever_asks(database: Database) -> None:
    tokens = await asyncio.gather(*(Keys(database).ensure_first_key("dev") for _ in range(3)))
    (token,) = [token for token in tokens if token is not None]
    assert token.startswith("hrm_dev_")
    actor = await Keys(database).authenticate(token)
    assert (actor.tenant_id, actor.role) == ("default", "admin")
    assert await Keys(database).ensure_first_key() is None


async def test_the_audit_tells_who_made_and_ended_a_key_but_not_its_secret(database: Database, service: Keys) -> None:
    issued = await service.issue(ADMIN, Wanted("acme", "viewer", "report"))
    await service.revoke(ADMIN, issued.row.id)
    async with database.connection() as connection:
        ended, made = await audit.page(connection, "acme", audit.Filter(object_id=issued.row.id), None, 10)
    assert (made.actor, made.action, made.object_type) == ("ann", "create", "api_key")
    assert (ended.action, ended.remote, ended.request_id) == ("revoke", "192.0.2.1", "req-1")
    assert made.after is not None
    assert '"role":"viewer"' in made.after
    assert issued.token[-38:] not in made.after


async def test_a_key_for_the_installation_is_one_call(service: Keys) -> None:
    actor = await service.authenticate(await service.create("acme", "editor", "seed"))
    assert (actor.tenant_id, actor.role) == ("acme", "editor")


async def test_no_more_than_ten_thousand_look_ups_are_remembered(service: Keys) -> None:
    for number in range(10_050):
        service._remember(f"id{number}", None, 0.0)
    assert len(service._remembered) == 10_000
    assert "id0" not in service._remembered


async def test_while_the_home_database_is_silent_known_keys_are_trusted_for_five_minutes(
    database: Database, service: Keys, seconds: Seconds
) -> None:
    known = await service.issue(ADMIN, Wanted("acme", "worker"))
    ending = await service.issue(
        ADMIN, Wanted("acme", "worker", expires_at=await database.now() + timedelta(seconds=60))
    )
    revoked, unseen = [await service.issue(ADMIN, Wanted("acme", "worker")) for _ in range(2)]
    for each in (known, ending, revoked):
        await service.authenticate(each.token)
    await service.revoke(ADMIN, revoked.row.id)
    await database.close()
    seconds.value += 10
    assert (await service.authenticate(known.token)).role == "worker"
    for each in (revoked, unseen):
        with pytest.raises(errors.UnavailableError):
            await service.authenticate(each.token)
    seconds.value += 60
    assert (await service.authenticate(known.token)).role == "worker"
    with pytest.raises(errors.UnavailableError):
        await service.authenticate(ending.token)
    seconds.value += 240
    with pytest.raises(errors.UnavailableError):
        await service.authenticate(known.token)
    await database.open()
    assert (await service.authenticate(known.token)).role == "worker"
