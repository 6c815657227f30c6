"""Outbox rows to Kafka: claimed, published, acknowledged, removed, in one transaction.

kill -9 anywhere puts the rows back: before the acknowledgement nothing has happened, after it they are published once
more (K10), and readers know them by their id. Several relays share the rows by SKIP LOCKED.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from services.relay.error import BrokerUnreachableError
from services.relay.scan import ScanPlan
from services.relay.topics import TopicDirectory
from shared.kafka.error import PublishError
from shared.kafka.record import Publisher, Record
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import OUTBOX_PUBLISHED, OUTBOX_REJECTED
from shared.wire.channel import MessageClass

_ROUNDS_PER_TURN: Final = 50
"""Full batches after which the loop gets its turn: it watches for stop."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """A database with an `ulak.outbox`. name is for logs and metrics, without credentials."""

    name: str
    pool: Pool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row can never be published."""

    error_class: str
    detail: str


class OutboxReader:
    """Empties one class of one source's outbox. `drains` transactions run side by side while batches are full."""

    def __init__(
        self,
        source: Source,
        message_class: MessageClass,
        *,
        publisher: Publisher,
        topics: TopicDirectory,
        index: Pool,
        batch: int,
        drains: int,
        full_scan_sec: float,
    ) -> None:
        """index: Ulak's own database, where rejected rows are listed."""
        self._source = source
        self._class = message_class
        self._publisher = publisher
        self._topics = topics
        self._index = index
        self._batch = batch
        self._drains = drains
        self._plan = ScanPlan(full_scan_sec)
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """Claim and publish what is due. True if batches were full to the end: there is more.

        Raises BrokerUnreachableError, MissingTopicError, PublishError (what was not acknowledged is back in the
        outbox), asyncpg's errors.
        """
        if not self._publisher.ready():
            raise BrokerUnreachableError("no broker answers")
        if not await self._one_batch():
            return False
        async with asyncio.TaskGroup() as group:
            turns = [group.create_task(self._turn()) for _ in range(self._drains)]
        return any(turn.result() for turn in turns)

    async def _turn(self) -> bool:
        for _ in range(_ROUNDS_PER_TURN):
            if not await self._one_batch():
                return False
        return True

    async def _one_batch(self) -> bool:
        """One transaction; True if it held a full batch."""
        started = time.monotonic()
        floor = self._plan.floor(started)
        async with self._source.pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(self._sql["claim_outbox"], int(self._class), floor, self._batch)
            self._plan.claimed(
                floor=floor,
                newest=max((row["available_at"] for row in rows), default=None),
                full=len(rows) == self._batch,
                at=time.monotonic(),
                took_sec=time.monotonic() - started,
            )
            if not rows:
                return False
            failure = await self._publish(connection, rows)
        if failure is not None:
            raise failure
        return len(rows) == self._batch

    async def _publish(self, connection: Connection, rows: Sequence[asyncpg.Record]) -> PublishError | None:
        """Publish; put back what the broker does not have. Returns the error to report once that is committed."""
        unknown = await self._topics.unknown({row["topic"] for row in rows})
        sendable = [row for row in rows if row["topic"] not in unknown]
        refused = {
            row["id"]: Refusal("unknown_topic", f"topic {row['topic'][:100]} does not exist: create it, then requeue")
            for row in rows
            if row["topic"] in unknown
        }
        failure: PublishError | None = None
        again: list[asyncpg.Record] = []
        try:
            await self._publisher.publish([_record(row) for row in sendable])
        except PublishError as error:
            reasons = dict(error.failed)
            refused |= {sendable[index]["id"]: _refusal(sendable[index], reasons[index]) for index in error.permanent}
            again = [sendable[index] for index in reasons if index not in error.permanent]
            failure = error if again else None
        if again or refused:
            await self._put_back(connection, [*again, *(row for row in rows if row["id"] in refused)], refused)
        OUTBOX_PUBLISHED.labels(self._class.label).inc(len(rows) - len(again) - len(refused))
        return failure

    async def _put_back(
        self, connection: Connection, rows: Sequence[asyncpg.Record], refused: dict[object, Refusal]
    ) -> None:
        if refused:
            # In the same transaction where the outbox is our own; before the source's commit where it is not, so
            # that a row is never at rest without being listed.
            own = connection if self._source.pool is self._index else self._index
            await own.execute(
                self._sql["index_rejected"],
                [hashlib.sha256(f"{self._source.name}|{row_id}".encode()).digest() for row_id in refused],
                [refusal.error_class for refusal in refused.values()],
                [f"{self._source.name} {row_id}: {refusal.detail}"[:256] for row_id, refusal in refused.items()],
            )
        await connection.execute(
            self._sql["return_outbox"],
            [row["id"] for row in rows],
            int(self._class),
            [row["topic"] for row in rows],
            [row["key"] for row in rows],
            [row["payload"] for row in rows],
            [row["headers"] for row in rows],
            [row["available_at"] for row in rows],
            [row["id"] in refused for row in rows],
        )
        for row_id, refusal in refused.items():
            OUTBOX_REJECTED.labels(refusal.error_class).inc()
            _log.error(
                "outbox_row_rejected",
                source=self._source.name,
                outbox_id=str(row_id),
                error_class=refusal.error_class,
                detail=refusal.detail,
            )


def _record(row: asyncpg.Record) -> Record:
    headers = [(str(name), str(value).encode()) for name, value in row["headers"].items()]
    return Record(row["topic"], row["key"], row["payload"], headers)


def _refusal(row: asyncpg.Record, reason: str) -> Refusal:
    if "SIZE_TOO_LARGE" in reason:
        return Refusal("oversized", f"{len(row['payload'])} bytes are more than the broker takes (K15)")
    return Refusal("invalid_record", reason[:200])
