"""The user's API as its own database role: everything of it works, and nothing else does; fixtures: pool, database."""

import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from shared.core.address import target_key
from shared.core.sealing import KeyRing
from shared.core.unsubscribe import Refusal, link_token
from shared.postgres.pool import open_pool
from shared.postgres.role import RoleError, put_role
from shared.postgres.settings import PostgresSettings
from tests.integration.me.conftest import DEVICES, PREFERENCES, Me, apns_token, running, settings_of
from tests.integration.me.inbox import LIST, notify, public
from tests.integration.plain_http import plain_client

OF_OTHERS = (
    "SELECT params_sealed FROM ulak.notifications",
    "SELECT event_id FROM ulak.notifications",
    "SELECT * FROM ulak.contents",
    "SELECT * FROM ulak.deliveries",
    "SELECT * FROM ulak.delivery_log",
    "SELECT * FROM ulak.api_keys",
    "SELECT * FROM ulak.applications",
    "SELECT * FROM ulak.templates",
    "SELECT * FROM ulak.suppressions",
    "SELECT * FROM ulak.outbox",
    "SELECT * FROM ulak.audit_log",
    "SELECT * FROM ulak.sender_profiles",
    "SELECT email_sealed, phone_sealed, attributes FROM ulak.recipients",
    "SELECT evidence_sealed, address_sealed FROM ulak.consents",
    "UPDATE ulak.recipients SET external_id = 'x'",
    "DELETE FROM ulak.recipients",
    "DELETE FROM ulak.user_preferences",
    "UPDATE ulak.inbox SET content_sealed = ''",
    "DELETE FROM ulak.inbox",
    "INSERT INTO ulak.inbox DEFAULT VALUES",
    "DELETE FROM ulak.consents",
    "UPDATE ulak.consents SET granted = true",
    "UPDATE ulak.notification_types SET category = 'SECURITY'",
    "INSERT INTO ulak.notifications (id) VALUES (ulak.uuidv7())",
    "CREATE TABLE ulak.mine (id INT)",
    "CREATE ROLE mine",
)


@pytest.fixture
async def role(pool: asyncpg.Pool) -> AsyncIterator[str]:
    """DSN user and password of a role of this test; roles are the whole server's."""
    name, password = f"ulak_me_{secrets.token_hex(4)}", secrets.token_hex(8)
    async with pool.acquire() as connection:
        assert await put_role(connection, name)
        await connection.execute(f"ALTER ROLE \"{name}\" PASSWORD '{password}'")
    yield f"{name}:{password}"
    await pool.execute(f'DROP OWNED BY "{name}"')
    await pool.execute(f'DROP ROLE "{name}"')


@pytest.fixture
def dsn(database: str, role: str) -> str:
    parts = urlsplit(database)
    return urlunsplit(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}"))


@pytest.fixture
async def me_as_role(
    dsn: str, pool: asyncpg.Pool, redis_url: str, key_prefix: str, key_ring: KeyRing
) -> AsyncIterator[Me]:
    settings = settings_of(dsn, redis_url, key_prefix)
    async with running(settings, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        yield Me(url, f"http://127.0.0.1:{settings.health.port}", pool, client)


async def test_preferences_and_devices_work_as_the_role(me_as_role: Me, types: None) -> None:
    me = me_as_role
    for wanted in (False, True):
        said = {"MARKETING": {"PUSH": wanted}, "types": {"ORDER_SHIPPED": {"PUSH": wanted}}}
        assert (await me.put(PREFERENCES, said)).status_code == 200
    assert (await me.get(PREFERENCES)).status_code == 200
    body = {"token": apns_token(), "platform": "IOS", "deviceId": "phone"}
    assert [(await me.post(DEVICES, body, user)).status_code for user in ("7", "7", "8")] == [201, 200, 200]
    assert (await me.get(DEVICES, "8")).status_code == 200
    assert (await me.delete(f"{DEVICES}/phone", "8")).status_code == 204


async def test_unsubscribing_works_as_the_role(me_as_role: Me, key_ring: KeyRing) -> None:
    refusal = Refusal(target_key(key_ring, "EMAIL", "ayse@example.com"), "EMAIL", "NOVEMBER_SALE")
    path = f"/u/{link_token(key_ring, refusal)}"
    for _ in range(2):
        assert (await me_as_role.client.post(path)).status_code == 200
    assert await me_as_role.pool.fetchval("SELECT granted FROM ulak.consent_states") is False


async def test_the_inbox_works_as_the_role(me_as_role: Me, key_ring: KeyRing) -> None:
    me = me_as_role
    first, second = [public(await notify(me.pool, key_ring, title)) for title in ("Kargoda", "Teslim")]
    assert len((await me.get(LIST)).json()["items"]) == 2
    assert (await me.get(f"{LIST}/unread-count")).status_code == 200
    for word in ("received", "seen", "opened", "read", "archived"):
        assert (await me.post(f"{LIST}/{first}/{word}", {})).is_success, word
    assert (await me.post(f"{LIST}/read-all", {})).is_success
    assert (await me.post(f"{LIST}/{second}/seen", {}, user="8")).status_code == 404
    assert (await me.post("/api/v1/me/stream-tickets", {})).is_success


@pytest.mark.parametrize("statement", OF_OTHERS)
async def test_the_role_can_do_nothing_else(dsn: str, statement: str) -> None:
    async with open_pool(PostgresSettings(dsn=dsn), name="test", size=1) as own:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await own.execute(statement)


async def test_rights_that_somebody_added_are_taken_back(pool: asyncpg.Pool, role: str, dsn: str) -> None:
    name = role.partition(":")[0]
    await pool.execute(f'GRANT SELECT ON ulak.contents TO "{name}"')
    await pool.execute(f'GRANT SELECT (params_sealed) ON ulak.notifications TO "{name}"')
    async with pool.acquire() as connection:
        assert not await put_role(connection, name)
    async with open_pool(PostgresSettings(dsn=dsn), name="test", size=1) as own:
        for statement in ("SELECT * FROM ulak.contents", "SELECT params_sealed FROM ulak.notifications"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await own.execute(statement)


async def test_a_role_that_could_do_more_anyway_is_refused(pool: asyncpg.Pool) -> None:
    owner = await pool.fetchval("SELECT current_user")
    async with pool.acquire() as connection:
        with pytest.raises(RoleError, match="another name"):
            await put_role(connection, owner)
        with pytest.raises(RoleError, match="not a name"):
            await put_role(connection, 'x"; DROP')
