"""Records of what the registry knows, and its citizens' changes into the ledger. Raises asyncpg's errors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.core.consent import Line, RecipientKind, Source, Word
from shared.core.sealing import KeyRing
from shared.postgres.consent import append
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries

PENDING: Final = "PENDING"
SUBMITTED: Final = "SUBMITTED"
ACCEPTED: Final = "ACCEPTED"
REJECTED: Final = "REJECTED"

_SQL: Final = load_queries("iys")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A record that is ours until its lease ends, in the state it was claimed in. attempts: with the one under way."""

    consent_id: UUID
    state: str
    attempts: int
    request_id: str | None
    sub_request_id: str | None
    subject: bytes
    channel: str
    word: Word
    source: Source
    kind: RecipientKind
    address_sealed: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Finished:
    """What a claimed record is afterwards. rest_sec: when it is looked at again, where it is not over."""

    claimed: Claimed
    state: str
    request_id: str | None = None
    sub_request_id: str | None = None
    code: str | None = None
    detail: str | None = None
    rest_sec: float = 0.0


class RecordStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, state: str, *, limit: int, lease_sec: float) -> list[Claimed]:
        """Due records, the longest due first; nobody else gets them before the lease ends."""
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(_SQL["claim"], state, limit, lease_sec)
        return sorted((_claimed(row, state) for row in rows), key=lambda claimed: claimed.consent_id)

    async def finish(self, finished: Sequence[Finished]) -> int:
        """Write what became of them; how many were still as they were claimed."""
        if not finished:
            return 0
        async with self._pool.acquire() as connection, connection.transaction():
            written = await connection.fetch(
                _SQL["finish"],
                [each.claimed.consent_id for each in finished],
                [each.claimed.state for each in finished],
                [each.claimed.attempts for each in finished],
                [each.state for each in finished],
                [each.request_id for each in finished],
                [each.sub_request_id for each in finished],
                [each.code for each in finished],
                [each.detail for each in finished],
                [each.rest_sec for each in finished],
            )
        return len(written)

    async def cursor(self, brand: str) -> str:
        """Where the next pull goes on; '' from the first change there is."""
        async with self._pool.acquire() as connection, connection.transaction():
            return str(await connection.fetchval(_SQL["cursor"], brand) or "")

    async def take_in(self, ring: KeyRing, brand: str, lines: Sequence[Line], *, before: str, after: str) -> bool:
        """Append pulled lines and move the cursor in one transaction.

        False, and nothing is written, where another relay has moved it meanwhile: that one has the lines.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval(_SQL["move_cursor"], brand, before, after):
                return False
            await append(connection, ring, lines)
        return True


def _claimed(row: Any, state: str) -> Claimed:
    at: datetime = row["at"]
    return Claimed(
        consent_id=row["consent_id"],
        state=state,
        attempts=row["attempts"],
        request_id=row["request_id"],
        sub_request_id=row["sub_request_id"],
        subject=row["subject"],
        channel=row["channel"],
        word=Word(row["granted"], at),
        source=Source(row["source"]),
        kind=RecipientKind(row["recipient_kind"]),
        address_sealed=row["address_sealed"],
    )
