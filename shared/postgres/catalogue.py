"""Notification types, templates and event mappings, read from PostgreSQL and kept for a few seconds."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from shared.core.catalogue import Catalogue, EventMapping, NotificationType, Template
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Category, MessageClass, Promise


class CatalogueCache:
    """The catalogue as it was at most `ttl_sec` ago. One reading at a time, whoever asks meanwhile waits for it.

    clock returns seconds and never goes back.
    """

    def __init__(self, pool: Pool, ttl_sec: float = 5.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._ttl_sec = ttl_sec
        self._clock = clock
        self._lock = asyncio.Lock()
        self._current: Catalogue | None = None
        self._read_at = 0.0

    async def get(self, *, max_age_sec: float | None = None) -> Catalogue:
        """The catalogue; UnavailableError if it must be read and PostgreSQL cannot be asked.

        max_age_sec: another age than the usual, for whoever misses something that may have been pushed a moment ago.
        """
        age = self._ttl_sec if max_age_sec is None else max_age_sec
        current = self._fresh(age)
        if current is not None:
            return current
        async with self._lock:
            current = self._fresh(age)  # another task may have read it while this one waited
            if current is None:
                read_at = self._clock()
                current = await read_catalogue(self._pool)
                self._current, self._read_at = current, read_at
            return current

    def _fresh(self, age_sec: float) -> Catalogue | None:
        return self._current if self._clock() - self._read_at < age_sec else None


async def read_catalogue(pool: Pool) -> Catalogue:
    """All three tables in one snapshot, so that no mapping names a type that this reading does not have."""
    queries = load_queries("catalogue")
    with translated():
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            types = await connection.fetch(queries["types"])
            templates = await connection.fetch(queries["templates"])
            mappings = await connection.fetch(queries["mappings"])
    return Catalogue(
        (
            NotificationType(
                name=row["type"],
                category=Category(row["category"]),
                message_class=MessageClass(row["message_class"]),
                default_channels=tuple(row["default_channels"]),
                ttl=timedelta(seconds=row["ttl_seconds"]),
                promises={channel: Promise(promise) for channel, promise in row["promises"].items()},
            )
            for row in types
        ),
        (
            Template(
                type_name=row["type"],
                channel=row["channel"],
                locale=row["locale"],
                version=row["version"],
                parts=row["parts"],
                parameters=frozenset(row["parameters"]),
            )
            for row in templates
        ),
        (
            EventMapping(
                name=row["name"],
                event_type=row["event_type"],
                notification_type=row["notification_type"],
                role=row["role"],
                recipient=row["recipient"],
                params=row["params"],
                business_key=row["business_key"],
            )
            for row in mappings
        ),
    )
