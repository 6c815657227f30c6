"""A change in one process is seen in the others at once; without Redis within the caches' time to live."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.core.catalogue import NotificationType
from shared.core.sealing import KeyRing
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.notification_type import NewType
from shared.postgres.pool import Pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.recipient import RecipientProfile, push_recipients
from shared.redis_store.client import open_redis
from shared.redis_store.invalidation import Kind, Listener, invalidate, listening
from shared.redis_store.settings import RedisSettings
from shared.wire.channel import Category, MessageClass
from tests.integration.redis_store.conftest import until

pytestmark = [pytest.mark.redis, pytest.mark.postgres]

HOUR_SEC = 3600.0


@pytest.fixture
async def user(pool: Pool, key_ring: KeyRing) -> int:
    await push_recipients(pool, key_ring, [RecipientProfile("7")])
    found: int = await pool.fetchval("SELECT user_id FROM ulak.recipients")
    return found


async def say(pool: Pool, user: int, *, enabled: bool) -> None:
    await pool.execute(
        "INSERT INTO ulak.user_preferences (user_id, category, channel, enabled) VALUES ($1, 'MARKETING', 'PUSH', $2) "
        "ON CONFLICT (user_id, category, channel, type) DO UPDATE SET enabled = $2",
        user,
        enabled,
    )


async def heard(cache: PreferenceCache, pool: Pool, user: int) -> bool | None:
    async with pool.acquire() as connection:
        found = (await cache.of(connection, [user]))[user]
    return found.get((Category.MARKETING, "PUSH", ""))


@asynccontextmanager
async def other_process(pool_dsn: str, redis_url: str, key_prefix: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.redis_store.cache_process"),
        cwd=Path(__file__).parents[3],
        env={**os.environ, "TEST_DSN": pool_dsn, "TEST_REDIS_URL": redis_url, "TEST_KEY_PREFIX": key_prefix},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def answer(process: asyncio.subprocess.Process, user: int) -> Mapping[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{user}\n".encode())
    await process.stdin.drain()
    found: Mapping[str, Any] = json.loads(await process.stdout.readline())
    return found


async def subscribers(redis: Redis, key_prefix: str) -> int:
    ((_, count),) = await redis.pubsub_numsub(f"{key_prefix}invalidation")
    return int(count)


async def test_another_process_sees_a_change_at_once(
    pool: Pool, database: str, redis_client: Redis, redis_url: str, key_prefix: str, user: int
) -> None:
    """Its caches live an hour: only what it is told makes it read again."""
    async with other_process(database, redis_url, key_prefix) as process:
        await until(lambda: _is(subscribers(redis_client, key_prefix), 1), "the other process listens")
        assert (await answer(process, user))["said"] == []
        await say(pool, user, enabled=False)
        assert (await answer(process, user))["said"] == [], "in memory"

        await invalidate(redis_client, key_prefix, Kind.PREFERENCES, [user])
        await until(lambda: _is(_said(process, user), ["False"]), "the preference is seen")

        sale = NotificationType("SALE", Category.MARKETING, MessageClass.BULK, ("EMAIL",), timedelta(hours=6))
        async with pool.acquire() as connection, connection.transaction():
            await push_catalogue(connection, Push(types=(NewType(sale),)))
        assert "SALE" not in (await answer(process, user))["types"], "in memory"
        await invalidate(redis_client, key_prefix, Kind.CATALOGUE)
        await until(lambda: _holds("SALE", process, user), "the type is seen")


async def test_after_a_lost_connection_everything_is_forgotten_as_messages_may_have_been_missed(
    pool: Pool, own_redis_url: str, key_prefix: str, user: int
) -> None:
    settings = RedisSettings(url=own_redis_url, key_prefix=key_prefix)
    cache = PreferenceCache(ttl_sec=HOUR_SEC)
    async with open_redis(settings) as redis:
        listener = Listener(redis, key_prefix, {Kind.PREFERENCES: cache.forget}, retry_sec=0.05)
        async with listening(listener):
            await until(lambda: _is(subscribers(redis, key_prefix), 1), "listening")
            assert await heard(cache, pool, user) is None
            await say(pool, user, enabled=False)
            await redis.client_kill_filter(_type="pubsub")  # and nobody tells
            await until(lambda: _is(heard(cache, pool, user), False), "read anew after the reconnect")


async def test_killed_redis_leaves_the_time_to_live_as_the_bound(
    pool: Pool, own_redis_url: str, key_prefix: str, user: int
) -> None:
    moment = [0.0]
    cache = PreferenceCache(ttl_sec=5.0, clock=lambda: moment[0])
    settings = RedisSettings(url=own_redis_url, key_prefix=key_prefix)
    async with open_redis(settings) as redis:
        listener = Listener(redis, key_prefix, {Kind.PREFERENCES: cache.forget}, retry_sec=0.05)
        async with listening(listener):
            await until(lambda: _is(subscribers(redis, key_prefix), 1), "listening")
            await redis.shutdown(nosave=True)
            assert await heard(cache, pool, user) is None
            await say(pool, user, enabled=True)
            await invalidate(redis, key_prefix, Kind.PREFERENCES, [user])  # tells nobody, and raises nothing
            moment[0] = 4.9
            assert await heard(cache, pool, user) is None
            moment[0] = 5.1
            assert await heard(cache, pool, user) is True


async def test_a_reading_that_a_change_overtook_is_not_kept(pool: Pool, user: int) -> None:
    """Read before the change was committed, kept after it was told of: it would be stale for its whole life."""
    cache = PreferenceCache(ttl_sec=HOUR_SEC)
    async with pool.acquire() as writer, pool.acquire() as locker:
        transaction = locker.transaction()
        await transaction.start()
        await locker.execute("LOCK TABLE ulak.user_preferences")
        reading = asyncio.create_task(heard(cache, pool, user))
        waiting = (
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
            "WHERE d.datname = current_database() AND NOT l.granted"
        )
        await until(lambda: _is(writer.fetchval(waiting), 1), "the reading waits")
        cache.forget([str(user)])
        await transaction.rollback()
        assert await reading is None
    await say(pool, user, enabled=False)
    assert await heard(cache, pool, user) is False


async def test_a_message_of_anyone_else_is_passed_over(redis_client: Redis, key_prefix: str) -> None:
    forgotten: list[object] = []
    listener = Listener(redis_client, key_prefix, {Kind.PREFERENCES: forgotten.append}, retry_sec=0.05)
    async with listening(listener):
        await until(lambda: _is(subscribers(redis_client, key_prefix), 1), "listening")
        for noise in (b"\xff", b"[]", b'{"kind":"weather","keys":[]}', b'{"kind":"preferences"}'):
            await redis_client.publish(f"{key_prefix}invalidation", noise)
        await invalidate(redis_client, key_prefix, Kind.CATALOGUE)  # a kind without a cache here
        await invalidate(redis_client, key_prefix, Kind.PREFERENCES, [1, 2])
        await invalidate(redis_client, key_prefix, Kind.PREFERENCES, range(5000))  # an import: everything
        await until(lambda: _holds_all(forgotten, [None, ["1", "2"], None]), "told in order")


async def _is(found: Any, wanted: object) -> bool:
    return bool(await found == wanted)


async def _said(process: asyncio.subprocess.Process, user: int) -> object:
    return (await answer(process, user))["said"]


async def _holds(name: str, process: asyncio.subprocess.Process, user: int) -> bool:
    return name in (await answer(process, user))["types"]


async def _holds_all(found: list[object], wanted: list[object]) -> bool:
    return found == wanted
