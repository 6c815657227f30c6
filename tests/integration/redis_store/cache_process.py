"""A process with both caches and a listener: answers each line `user` on stdin with what it has in memory or reads.

Its caches live an hour, so that only an invalidation can make it see a change.
"""

import asyncio
import json
import os
import sys

from prometheus_client import REGISTRY

from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import open_pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.settings import PostgresSettings
from shared.redis_store.client import open_redis
from shared.redis_store.invalidation import Kind, Listener, listening
from shared.redis_store.settings import RedisSettings

HOUR_SEC = 3600.0


async def main() -> None:
    settings = RedisSettings(url=os.environ["TEST_REDIS_URL"], key_prefix=os.environ["TEST_KEY_PREFIX"])
    async with (
        open_pool(PostgresSettings(dsn=os.environ["TEST_DSN"]), name="test", size=2) as pool,
        open_redis(settings) as redis,
    ):
        catalogue, preferences = CatalogueCache(pool, HOUR_SEC), PreferenceCache(ttl_sec=HOUR_SEC)
        handlers = {Kind.CATALOGUE: catalogue.forget, Kind.PREFERENCES: preferences.forget}
        async with listening(Listener(redis, settings.key_prefix, handlers, retry_sec=0.1)):
            while REGISTRY.get_sample_value("ulak_cache_listening") != 1:  # noqa: ASYNC110  nobody tells of it
                await asyncio.sleep(0.01)  # all is forgotten once more when it has begun to listen
            while line := await asyncio.to_thread(sys.stdin.readline):
                user = int(line)
                async with pool.acquire() as connection:
                    said = (await preferences.of(connection, [user]))[user]
                types = sorted(found.name for found in (await catalogue.get()).types)
                print(json.dumps({"said": sorted(map(str, said.values())), "types": types}), flush=True)


asyncio.run(main())
