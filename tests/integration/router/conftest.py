"""A router on a real database, with the producer's in-memory twin; the shop's catalogue and two users in it."""

import pytest

from shared.core.sealing import KeyRing
from shared.postgres.catalogue_write import push_catalogue
from shared.postgres.pool import Pool
from shared.postgres.recipient import push_recipients
from tests.integration.router.stage import AYSE, CATALOGUE, DENIZ, Router


@pytest.fixture
async def router(pool: Pool, key_ring: KeyRing) -> Router:
    async with pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, CATALOGUE)
    await push_recipients(pool, key_ring, [AYSE, DENIZ])
    return Router(pool, key_ring)
