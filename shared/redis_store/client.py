"""The Redis client every process opens once, in its composition root."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from shared.redis_store.settings import RedisSettings

_MAX_CONNECTIONS: Final = 64


@asynccontextmanager
async def open_redis(settings: RedisSettings) -> AsyncIterator[Redis]:
    """A client for the length of the block; it does not wait for a server.

    It sends no command twice by itself: a take that timed out may have been granted (R3).
    """
    client = Redis.from_url(
        settings.url,
        max_connections=_MAX_CONNECTIONS,
        socket_timeout=settings.timeout_sec,
        socket_connect_timeout=settings.timeout_sec,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        yield client
    finally:
        await client.aclose()
