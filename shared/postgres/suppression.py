"""Whom nothing, or no marketing, may be sent to: by channel and address, whoever has it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import asyncpg

from shared.core.address import target_key
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, open_sealed
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.postgres.recipient import sealed_address

_SQL: Final = load_queries("suppression")


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """canonical decides sameness, address is kept sealed. scope: ALL or MARKETING. source: bounce, complaint, stop,
    manual, import. expires_at None: for good.
    """

    channel: str
    canonical: str = field(repr=False)
    address: str = field(repr=False)
    scope: str
    reason: str
    source: str
    note: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredSuppression:
    """Fields as in NewSuppression. address_sealed None: known by its key alone."""

    id: UUID
    channel: str
    scope: str
    address_key: bytes
    address_sealed: bytes | None = field(repr=False)
    reason: str
    source: str
    note: str | None = field(repr=False)
    created_by: str
    created_at: datetime
    expires_at: datetime | None

    def address(self, ring: KeyRing) -> str | None:
        """In the clear; raises a SealError."""
        if self.address_sealed is None:
            return None
        return open_sealed(ring, Purpose.ADDRESS, self.address_key, self.address_sealed).decode()


class Added(StrEnum):
    """What became of an addition."""

    CREATED = "created"
    PROLONGED = "prolonged"
    UNCHANGED = "unchanged"


async def put_suppressions(
    connection: Connection, ring: KeyRing, new: Sequence[NewSuppression], *, created_by: str
) -> None:
    """Suppress all in the caller's transaction, to the effect of `add_suppression` of one after the other.

    Raises what asyncpg raises.
    """
    rows: dict[tuple[str, bytes, str], tuple[NewSuppression, bytes]] = {}
    for each in new:
        key, sealed = sealed_address(ring, each.channel, each.canonical, each.address)
        known = rows.get((each.channel, key, each.scope))
        if known is None or _outlasts(each.expires_at, known[0].expires_at):
            rows[each.channel, key, each.scope] = (each, sealed)
    if rows:
        await connection.execute(
            _SQL["put"],
            [channel for channel, _, _ in rows],
            [key for _, key, _ in rows],
            [scope for _, _, scope in rows],
            [sealed for _, sealed in rows.values()],
            [each.reason for each, _ in rows.values()],
            [each.source for each, _ in rows.values()],
            [each.note for each, _ in rows.values()],
            [each.expires_at for each, _ in rows.values()],
            created_by,
        )


async def list_suppressions(
    connection: Connection, *, channel: str | None, before: UUID | None, limit: int
) -> Sequence[StoredSuppression]:
    """At most `limit`, the newest first, older than the id `before`."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], channel, before, limit)]


async def add_suppression(
    connection: Connection, ring: KeyRing, new: NewSuppression, *, created_by: str
) -> tuple[StoredSuppression, Added]:
    """Suppress one address, in the caller's transaction.

    One that is there is prolonged, never shortened: a bounce does not end because somebody meant to add a pause.
    """
    key, sealed = sealed_address(ring, new.channel, new.canonical, new.address)
    told = (sealed, new.reason, new.source, new.note, created_by, new.expires_at)
    while True:
        row = await connection.fetchrow(_SQL["add"], new_id(), new.channel, key, new.scope, *told)
        if row is not None:
            return _stored(row), Added.CREATED
        known = await connection.fetchrow(_SQL["locked"], new.channel, key, new.scope)
        if known is not None:  # else it was removed meanwhile, and nothing is in the way of another attempt
            break
    if not _outlasts(new.expires_at, known["expires_at"]):
        return _stored(known), Added.UNCHANGED
    row = await connection.fetchrow(_SQL["prolong"], known["id"], *told)
    assert row is not None
    return _stored(row), Added.PROLONGED


async def remove_suppression(
    connection: Connection, ring: KeyRing, channel: str, canonical: str, scope: str
) -> UUID | None:
    """The id of what was removed; None if the address was not suppressed in this scope."""
    key = target_key(ring, channel, canonical)
    removed: UUID | None = await connection.fetchval(_SQL["remove"], channel, key, scope)
    return removed


def _outlasts(end: datetime | None, other: datetime | None) -> bool:
    """Whether it ends later than the other; None: never."""
    return other is not None and (end is None or end > other)


def _stored(row: asyncpg.Record) -> StoredSuppression:
    return StoredSuppression(
        id=row["id"],
        channel=row["channel"],
        scope=row["scope"],
        address_key=row["address_key"],
        address_sealed=row["address_sealed"],
        reason=row["reason"],
        source=row["source"],
        note=row["note"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )
