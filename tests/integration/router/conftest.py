"""A router on a real database and Redis, with the producer's in-memory twin; the shop's catalogue and two users."""

import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from shared.core.sealing import KeyRing
from shared.postgres.catalogue_write import push_catalogue
from shared.postgres.pool import Pool
from shared.postgres.recipient import push_recipients
from tests.integration.router.stage import AYSE, CATALOGUE, DENIZ, Router


@pytest.fixture
async def router(pool: Pool, key_ring: KeyRing, redis_client: Redis, key_prefix: str) -> AsyncIterator[Router]:
    async with pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, CATALOGUE)
    await push_recipients(pool, key_ring, [AYSE, DENIZ])
    # As if this Redis had kept its keys for three days.
    await redis_client.set(f"{key_prefix}cap:epoch", int((time.time() - 3 * 86_400) * 1000))
    yield Router(pool, key_ring, redis_client, key_prefix)
    async for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        await redis_client.delete(key)
