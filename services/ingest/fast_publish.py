"""After the commit: publish at once (latency); the outbox row stays for the relay until the broker has acknowledged."""

import asyncio
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from shared.kafka.record import Publisher, Record
from shared.postgres.errors import UnavailableError, translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger

_log = get_logger(__name__)

OUTBOX_DELAY_SEC: Final = 2.0
"""How far ahead the outbox rows become the relay's (data.md, outbox)."""
_GATHER_SEC: Final = 0.1
_MAX_REMOVED: Final = 2000


class FastPublisher:
    """Publishes committed rows and removes their outbox rows, both in the background.

    Whatever fails here costs latency only: a row that stays is published by the relay two seconds later, a row whose
    removal was lost is published twice, and the row behind the hint tells the reader that nothing is left to do.
    """

    def __init__(self, publisher: Publisher, pool: Pool) -> None:
        self._publisher = publisher
        self._pool = pool
        self._query = load_queries("ingest")["remove_published"]
        self._publishing: set[asyncio.Task[None]] = set()
        self._acknowledged: list[UUID] = []
        self._removing: asyncio.Task[None] | None = None

    def publish(self, outbox_ids: Sequence[UUID], records: Sequence[Record]) -> None:
        """Take over rows that were just committed; returns at once. One record per id."""
        if not records:
            return
        task = asyncio.create_task(self._publish(outbox_ids, records))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def drain(self) -> None:
        """Return when nothing is on its way and what was acknowledged is removed."""
        if self._publishing:
            await asyncio.wait(set(self._publishing))
        if self._removing is not None:
            await self._removing

    async def _publish(self, outbox_ids: Sequence[UUID], records: Sequence[Record]) -> None:
        if not await self._publisher.try_publish(records):
            return
        self._acknowledged.extend(outbox_ids)
        if self._removing is None:
            self._removing = asyncio.create_task(self._remove())

    async def _remove(self) -> None:
        """Remove in batches; a short gathering keeps this far from one statement per request."""
        try:
            while self._acknowledged:
                await asyncio.sleep(_GATHER_SEC)
                batch, self._acknowledged = self._acknowledged[:_MAX_REMOVED], self._acknowledged[_MAX_REMOVED:]
                await self._remove_batch(batch)
        finally:
            self._removing = None

    async def _remove_batch(self, batch: Sequence[UUID]) -> None:
        try:
            with translated():
                async with self._pool.acquire() as connection, connection.transaction():
                    # A removal that a crash undoes is made good by publishing again: no need to wait for the disk.
                    await connection.execute("SET LOCAL synchronous_commit = off")
                    await connection.execute(self._query, batch)
        except UnavailableError as error:
            _log.warning("outbox_rows_not_removed", rows=len(batch), reason=str(error))
