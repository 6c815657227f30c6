"""Frequency caps as they are administered. Writers hold the catalogue's lock (shared/postgres/template.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from shared.core.catalogue import FrequencyCap
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import Category

_SQL: Final = load_queries("frequency_cap")


@dataclass(frozen=True, slots=True)
class StoredCap:
    cap: FrequencyCap
    revision: int
    updated_at: datetime


async def stored_cap(connection: Connection, category: Category, channel: str) -> StoredCap | None:
    row = await connection.fetchrow(_SQL["one"], category, channel)
    return None if row is None else _stored(row)


async def list_caps(connection: Connection, *, after: tuple[str, str], limit: int) -> Sequence[StoredCap]:
    """At most `limit` behind a category and channel, in their order."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], *after, limit)]


async def put_cap(connection: Connection, cap: FrequencyCap) -> bool | None:
    """Create or change it: True if it was created, None if it was so already."""
    row = await connection.fetchrow(_SQL["put"], cap.category, cap.channel, cap.per_day)
    return None if row is None else bool(row["created"])


async def remove_cap(connection: Connection, category: Category, channel: str) -> None:
    """As often as asked, from then on."""
    await connection.execute(_SQL["remove"], category, channel)


def _stored(row: asyncpg.Record) -> StoredCap:
    cap = FrequencyCap(Category(row["category"]), row["channel"], row["per_day"])
    return StoredCap(cap, row["revision"], row["updated_at"])
