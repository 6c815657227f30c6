"""Notification types, templates, event mappings and senders, read from PostgreSQL and kept for a few seconds."""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from shared.core.catalogue import (
    Catalogue,
    EventMapping,
    FrequencyCap,
    Template,
)
from shared.core.ports import SenderProfile
from shared.core.sender import SealedKey, StoredProfile
from shared.postgres.errors import translated
from shared.postgres.notification_type import type_of
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import CACHE_LOOKUPS
from shared.wire.channel import Category


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
        self._forgotten = 0
        self._hits = CACHE_LOOKUPS.labels("catalogue", "hit")
        self._misses = CACHE_LOOKUPS.labels("catalogue", "miss")

    async def get(self, *, max_age_sec: float | None = None) -> Catalogue:
        """The catalogue; UnavailableError if it must be read and PostgreSQL cannot be asked.

        max_age_sec: another age than the usual, for whoever misses something that may have been pushed a moment ago.
        """
        age = self._ttl_sec if max_age_sec is None else max_age_sec
        current = self._fresh(age)
        if current is not None:
            self._hits.inc()
            return current
        self._misses.inc()
        async with self._lock:
            current = self._fresh(age)  # another task may have read it while this one waited
            if current is None:
                read_at, forgotten = self._clock(), self._forgotten
                current = await read_catalogue(self._pool)
                if forgotten == self._forgotten:  # else it was changed meanwhile, perhaps after we had read it
                    self._current, self._read_at = current, read_at
            return current

    def forget(self, _keys: Collection[str] | None = None) -> None:
        """It was changed: whoever asks next reads it. It is one reading, so keys do not matter."""
        self._current = None
        self._forgotten += 1

    def _fresh(self, age_sec: float) -> Catalogue | None:
        return self._current if self._clock() - self._read_at < age_sec else None


async def read_catalogue(pool: Pool) -> Catalogue:
    """All tables in one snapshot, so that no mapping names a type that this reading does not have."""
    queries = load_queries("catalogue")
    with translated():
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            types = await connection.fetch(queries["types"])
            templates = await connection.fetch(queries["templates"])
            mappings = await connection.fetch(queries["mappings"])
            senders = await connection.fetch(queries["senders"])
            caps = await connection.fetch(queries["caps"])
    return Catalogue(
        (type_of(row) for row in types),
        (
            Template(
                type_name=row["type"],
                channel=row["channel"],
                locale=row["locale"],
                version=row["version"],
                parts=row["parts"],
                parameters=frozenset(row["parameters"]),
                options=row["options"],
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
        (stored_profile(row) for row in senders),
        (FrequencyCap(Category(row["category"]), row["channel"], row["per_day"]) for row in caps),
    )


def stored_profile(row: Any) -> StoredProfile:
    """A row of sender_profiles, its key as it is stored."""
    key = row["dkim_key_sealed"]
    return StoredProfile(
        row["name"],
        SenderProfile(row["from_address"], row["from_name"], row["reply_to"], row["return_path"]),
        None if key is None else SealedKey(row["dkim_domain"], row["dkim_selector"], key),
    )
