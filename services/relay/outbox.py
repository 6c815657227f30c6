"""One class of one outbox, row by row: claimed, published, acknowledged, removed, in one transaction.

No order is kept among these rows; several relays, and several transactions of one, share them by SKIP LOCKED. Rows that
ask for the order of their key are read apart (`ordered.py`).
"""

import asyncio
import time
from typing import Final

from services.relay.error import BrokerUnreachableError
from services.relay.publication import Publication
from services.relay.scan import ScanPlan
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass

_ROUNDS_PER_TURN: Final = 50
"""Full batches after which the loop gets its turn: it watches for stop."""


class OutboxReader:
    """Empties one class of one source's outbox. `drains` transactions run side by side while batches are full."""

    def __init__(
        self,
        pool: Pool,
        message_class: MessageClass,
        publication: Publication,
        *,
        batch: int,
        drains: int,
        full_scan_sec: float,
    ) -> None:
        self._pool = pool
        self._class = message_class
        self._publication = publication
        self._batch = batch
        self._drains = drains
        self._plan = ScanPlan(full_scan_sec)
        self._found = False
        self._claim: Final = load_queries("relay")["claim_outbox_keeping" if publication.keeps else "claim_outbox"]

    async def round(self) -> bool:
        """Claim and publish what is due. True if batches were full to the end: there is more.

        Raises BrokerUnreachableError, MissingTopicError, PublishError (what was not acknowledged is back in the
        outbox), asyncpg's errors.
        """
        self._found = False
        if not self._publication.ready():
            raise BrokerUnreachableError("no broker answers")
        if not await self._one_batch():
            return False
        async with asyncio.TaskGroup() as group:
            turns = [group.create_task(self._turn()) for _ in range(self._drains)]
        return any(turn.result() for turn in turns)

    def found(self) -> bool:
        """Whether the last round claimed anything."""
        return self._found

    async def _turn(self) -> bool:
        for _ in range(_ROUNDS_PER_TURN):
            if not await self._one_batch():
                return False
        return True

    async def _one_batch(self) -> bool:
        """One transaction; True if it held a full batch."""
        started = time.monotonic()
        floor = self._plan.floor(started)
        left = self._publication.left_alone()
        async with self._pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(self._claim, int(self._class), floor, self._batch, left.headers, left.sec)
            self._plan.claimed(
                floor=floor,
                newest=max((row["available_at"] for row in rows), default=None),
                full=len(rows) == self._batch,
                at=time.monotonic(),
                took_sec=time.monotonic() - started,
            )
            if not rows:
                return False
            self._found = True
            failure = await self._publication.publish(connection, rows)
        if failure is not None:
            raise failure
        return len(rows) == self._batch
