"""Event mappings as they are administered. Writers hold the catalogue's lock (shared/postgres/template.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from shared.core.catalogue import EventMapping
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("event_mapping")


@dataclass(frozen=True, slots=True)
class StoredMapping:
    """active: whether events are read through it."""

    mapping: EventMapping
    active: bool
    revision: int
    updated_at: datetime


async def stored_mapping(connection: Connection, name: str) -> StoredMapping | None:
    row = await connection.fetchrow(_SQL["one"], name)
    return None if row is None else _stored(row)


async def list_mappings(connection: Connection, *, after: str, limit: int) -> Sequence[StoredMapping]:
    """At most `limit` behind the name `after`, by name."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], after, limit)]


async def put_mapping(connection: Connection, mapping: EventMapping, *, active: bool = True) -> bool | None:
    """Create or change it: True if it was created, None if it was so already. asyncpg's ForeignKeyViolationError for
    a type that is not there.
    """
    row = await connection.fetchrow(
        _SQL["put"],
        mapping.name,
        mapping.event_type,
        mapping.notification_type,
        mapping.role,
        mapping.recipient,
        dict(mapping.params),
        mapping.business_key,
        active,
    )
    return None if row is None else bool(row["created"])


async def remove_mapping(connection: Connection, name: str) -> None:
    """Events of its type are no notification any more; those that were accepted go on."""
    await connection.execute(_SQL["remove"], name)


def _stored(row: asyncpg.Record) -> StoredMapping:
    mapping = EventMapping(
        name=row["name"],
        event_type=row["event_type"],
        notification_type=row["notification_type"],
        role=row["role"],
        recipient=row["recipient"],
        params=row["params"],
        business_key=row["business_key"],
    )
    return StoredMapping(mapping, row["active"], row["revision"], row["updated_at"])
