"""Model A's rows in one source: claimed, recorded, reaped. Every change counts the rows it changed."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from services.relay.email.plan import Record
from services.relay.email.row import EmailRow, read_outcomes, seal_row
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass


async def fetch(pool: Pool, statement: str, *arguments: Any) -> Sequence[Any]:
    """One statement in a transaction of its own: behind a pooler (O5) its parts must reach one server connection."""
    async with pool.acquire() as connection, connection.transaction():
        return await connection.fetch(statement, *arguments)


@dataclass(frozen=True, slots=True)
class Claim:
    """Rows that are ours until lease_end (monotonic). newest: the latest `next_attempt_at` among them."""

    id: UUID
    lease_end: float
    rows: Sequence[EmailRow]
    newest: datetime | None


class EmailStore:
    """Raises asyncpg's errors."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql: Final = load_queries("email_messages")

    async def claim(self, message_class: MessageClass, *, floor: datetime, limit: int, lease_sec: float) -> Claim:
        """At most `limit` due rows of a class, those due from `floor` on."""
        claim_id, claimed_at = new_id(), time.monotonic()  # before the source's clock is read: ours ends first
        found = await fetch(self._pool, self._sql["claim_email"], int(message_class), limit, floor, claim_id, lease_sec)
        newest = max((record["next_attempt_at"] for record in found), default=None)
        rows = sorted((_row(record) for record in found), key=lambda row: row.id)
        return Claim(claim_id, claimed_at + lease_sec, rows, newest)

    async def record(self, claim_id: UUID, records: Sequence[Record], ring: KeyRing) -> frozenset[UUID]:
        """Write what became of rows; the ids of those that were still this claim's.

        A row that nothing was tried on stays in the clear, if it is; any other is sealed with the ring.
        """
        if not records:
            return frozenset()
        sealed = [None if _untouched(record) else seal_row(record.row, ring) for record in records]
        written = await fetch(
            self._pool,
            self._sql["record_email"],
            claim_id,
            [record.row.id for record in records],
            [record.status for record in records],
            [record.attempt_count for record in records],
            [{str(position): told for position, told in record.outcomes.items()} for record in records],
            [record.error for record in records],
            [record.next_attempt_at for record in records],
            [record.provider for record in records],
            [record.provider_message_id for record in records],
            [None if pair is None else pair[0] for pair in sealed],
            [None if pair is None else pair[1] for pair in sealed],
            [record.cleared for record in records],
            [None if record.message_class is None else int(record.message_class) for record in records],
        )
        return frozenset(row["id"] for row in written)

    async def reap(self, limit: int) -> int:
        """Put back rows whose lease ran out, an attempt counted; how many."""
        return len(await fetch(self._pool, self._sql["reap_email"], limit))

    async def oldest_sec(self) -> float | None:
        """How long the oldest due row has waited; None without one."""
        [row] = await fetch(self._pool, self._sql["oldest_email"], [int(each) for each in MessageClass])
        age: float | None = row["age_sec"]
        return age


class SuppressionStore:
    """Addresses that are dead, in Ulak's own database: nobody's e-mail goes to them again. Raises asyncpg's errors."""

    def __init__(self, own: Pool) -> None:
        self._own = own
        self._sql: Final = load_queries("email_messages")

    async def add(self, keys: Iterable[bytes]) -> None:
        """Harmless when repeated."""
        found = sorted(set(keys))
        if found:
            await fetch(self._own, self._sql["suppress_addresses"], found)


def _untouched(record: Record) -> bool:
    """Given back as it was claimed: no outcome of any kind."""
    row = record.row
    return record.status == "PENDING" and (record.attempt_count, record.outcomes) == (row.attempt_count, row.outcomes)


def _row(record: Any) -> EmailRow:
    return EmailRow(
        id=record["id"],
        message_class=MessageClass(record["message_class"]),
        template=record["template"],
        type=record["type"],
        locale=record["locale"],
        user_id=record["user_id"],
        recipients=record["recipients"],
        parameters=record["parameters"],
        sealed=record["sealed"],
        attachments=record["attachments"],
        attempt_count=record["attempt_count"],
        outcomes=read_outcomes(record["outcomes"]),
        expires_at=record["expires_at"],
        created_at=record["created_at"],
    )
