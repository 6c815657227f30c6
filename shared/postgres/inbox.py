"""The inbox in PostgreSQL: entries by user and time, and beside them one counter a user that is always exact."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from shared.core.inbox import MAX_PAGE, Entry, EntryState, NewEntry, Position, Shelf
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries


async def write_inbox(connection: Connection, entries: Sequence[NewEntry]) -> None:
    """Add entries within the caller's transaction; those that are there already change nothing.

    Locks the counters of their users until the transaction ends, in the users' order.
    """
    if not entries:
        return
    await connection.execute(
        load_queries("inbox")["add_entries"],
        [entry.user_id for entry in entries],
        [entry.created_at for entry in entries],
        [entry.notification_id for entry in entries],
        [entry.type_name for entry in entries],
        [entry.content_sealed for entry in entries],
        [entry.locale for entry in entries],
    )


async def prune_inbox(connection: Connection, before: datetime, *, limit: int) -> int:
    """Remove at most `limit` entries from before that time, the oldest first; how many. Run it until it is fewer."""
    with translated():
        removed: int = await connection.fetchval(load_queries("inbox")["prune"], before, limit)
    return removed


class PostgresInbox:
    """`InboxStore` over a pool. Each call is one statement, so it is atomic by itself."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql = load_queries("inbox")

    async def page(
        self, user_id: int, shelf: Shelf, *, before: Position | None = None, limit: int = 50
    ) -> Sequence[Entry]:
        if not 1 <= limit <= MAX_PAGE:
            raise ValueError(f"a page holds 1 to {MAX_PAGE} entries, not {limit}")
        time, notification_id = (None, None) if before is None else (before.created_at, before.notification_id)
        with translated():
            rows = await self._pool.fetch(self._sql["page"], user_id, shelf, time, notification_id, limit)
        return [_entry(row) for row in rows]

    async def after(self, user_id: int, position: Position, *, limit: int) -> Sequence[Entry]:
        with translated():
            rows = await self._pool.fetch(
                self._sql["after"], user_id, position.created_at, position.notification_id, limit
            )
        return [_entry(row) for row in rows]

    async def unread(self, user_id: int) -> int:
        with translated():
            count: int | None = await self._pool.fetchval(self._sql["unread"], user_id)
        return count or 0

    async def change(self, user_id: int, notification_id: UUID, state: EntryState, at: datetime) -> bool:
        if state is EntryState.UNSEEN:
            raise ValueError("an entry never becomes unseen again")
        with translated():
            found: bool = await self._pool.fetchval(self._sql["change"], user_id, notification_id, state, at)
        return found

    async def read_all(self, user_id: int, *, until: datetime, at: datetime) -> int:
        with translated():
            count: int = await self._pool.fetchval(self._sql["read_all"], user_id, until, at)
        return count


def _entry(row: asyncpg.Record) -> Entry:
    return Entry(
        notification_id=row["notification_id"],
        created_at=row["created_at"],
        type_name=row["type"],
        content_sealed=row["content_sealed"],
        locale=row["locale"],
        seen_at=row["seen_at"],
        read_at=row["read_at"],
        archived_at=row["archived_at"],
    )
