"""What becomes of claimed outbox rows: published and acknowledged, or put back in the transaction that claimed them.

kill -9 anywhere puts the rows back: before the acknowledgement nothing has happened, after it they are published once
more (K10), and readers know them by their id.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncpg
import orjson

from services.relay.opener import LeftAlone, Opener, Postponed, Refusal
from services.relay.topics import TopicDirectory
from shared.kafka.error import PublishError
from shared.kafka.record import Publisher, Record
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.postgres.source import OWN, row_fingerprint
from shared.runtime.logs import get_logger
from shared.runtime.metrics import OUTBOX_PUBLISHED, OUTBOX_REJECTED, OUTBOX_UNSEALABLE
from shared.wire.channel import MessageClass

_ERROR_CHARS: Final = 256

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ways:
    """What every reader of the relay publishes through.

    index: Ulak's own database, where rejected rows are listed.
    """

    publisher: Publisher
    topics: TopicDirectory
    opener: Opener
    index: Pool


@dataclass(slots=True)
class Leftover:
    """The rows of one claim that the broker does not have."""

    again: list[asyncpg.Record] = field(default_factory=list)
    postponed: list[tuple[asyncpg.Record, Postponed]] = field(default_factory=list)
    refused: list[tuple[asyncpg.Record, Refusal]] = field(default_factory=list)
    held: set[bytes] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.again) + len(self.postponed) + len(self.refused)

    def holds(self, row: asyncpg.Record) -> bool:
        """Whether a row must go back because one of its key that goes first does (O3)."""
        return row["ordered"] and row["key"] in self.held

    def put_back(self, row: asyncpg.Record, why: Postponed | Refusal | None = None) -> None:
        """One row of the claim, in its order. A refused one goes out of its key's way: later ones flow (K15)."""
        if isinstance(why, Refusal):
            self.refused.append((row, why))
            return
        if why is None:
            self.again.append(row)
        else:
            self.postponed.append((row, why))
        if row["ordered"]:
            self.held.add(row["key"])


class Publication:
    """Publishes the claimed rows of one class of one source."""

    def __init__(self, source: str, message_class: MessageClass, ways: Ways, *, keeps: bool) -> None:
        """keeps: whether the claims keep what they take in `outbox_published`."""
        self._source = source
        self._class = message_class
        self._ways = ways
        self.keeps: Final = keeps
        self._sql: Final = load_queries("relay")

    def ready(self) -> bool:
        """Whether a broker answers: without one, rows are not even claimed."""
        return self._ways.publisher.ready()

    def left_alone(self) -> LeftAlone:
        """What a claim leaves to other relays for now."""
        return self._ways.opener.left_alone()

    async def publish(self, connection: Connection, rows: Sequence[asyncpg.Record]) -> PublishError | None:
        """Publish the rows in their order; put back what the broker does not have, all in the caller's transaction.

        Ordered rows: whatever follows a row that goes back goes back too, acknowledged or not, so that the last row of
        a key is also the last that readers see. Returns the error to report once the transaction is committed.
        """
        unknown = await self._ways.topics.unknown({row["topic"] for row in rows})
        left = Leftover()
        sendable: list[asyncpg.Record] = []
        records: list[Record] = []
        for row in rows:
            if left.holds(row):
                left.put_back(row)
                continue
            record = self._record(row, unknown)
            if isinstance(record, Record):
                sendable.append(row)
                records.append(record)
            else:
                left.put_back(row, record)
        failure: PublishError | None = None
        try:
            await self._ways.publisher.publish(records)
        except PublishError as error:
            failure = self._after_failure(error, sendable, left)
        if left:
            await self._return(connection, left)
        OUTBOX_PUBLISHED.labels(self._class.label).inc(len(rows) - len(left))
        return failure

    def _record(self, row: asyncpg.Record, unknown: frozenset[str]) -> Record | Refusal | Postponed:
        if row["topic"] in unknown:
            return Refusal("unknown_topic", f"topic {row['topic'][:100]} does not exist: create it, then requeue")
        try:
            headers = _headers(row["headers"])
        except ValueError:
            return Refusal("invalid_record", "headers are no JSON object that can be read: correct them, then requeue")
        payload = self._ways.opener.open(row["id"], row["payload"]) if row["sealed"] else row["payload"]
        return Record(row["topic"], row["key"], payload, headers) if isinstance(payload, bytes) else payload

    @staticmethod
    def _after_failure(error: PublishError, sent: Sequence[asyncpg.Record], left: Leftover) -> PublishError | None:
        """Sort out what was not acknowledged. The error, if any of it is worth another try."""
        reasons = dict(error.failed)
        for index, row in enumerate(sent):
            if index in error.permanent and not left.holds(row):
                left.put_back(row, _refusal(row, reasons[index]))
            elif index in reasons or left.holds(row):
                left.put_back(row)
        return error if len(reasons) > len(error.permanent) else None

    async def _return(self, connection: Connection, left: Leftover) -> None:
        if left.refused:
            await self._index_refused(connection, left.refused)
        if self.keeps:
            rows = [*left.again, *(row for row, _ in (*left.postponed, *left.refused))]
            await connection.execute(self._sql["forget_published"], [row["id"] for row in rows])
        await self._insert(connection, [(row, None, 0.0) for row in left.again])
        await self._insert(connection, [(row, None, postponed.wait_sec) for row, postponed in left.postponed])
        await self._insert(connection, [(row, _error(refusal), 0.0) for row, refusal in left.refused])
        self._report(left)

    async def _insert(self, connection: Connection, rows: Sequence[tuple[asyncpg.Record, str | None, float]]) -> None:
        """Each row with its error, if it is set aside, and the seconds it rests, if it does."""
        if not rows:
            return
        records = [row for row, _, _ in rows]
        await connection.execute(
            self._sql["return_outbox"],
            [row["id"] for row in records],
            int(self._class),
            *([row[column] for row in records] for column in _RETURNED),
            [error for _, error, _ in rows],
            [later_sec for _, _, later_sec in rows],
        )

    async def _index_refused(self, connection: Connection, refused: Sequence[tuple[asyncpg.Record, Refusal]]) -> None:
        """In the same transaction where the outbox is our own; before the source's commit where it is not, so that a
        row is never at rest without being listed.
        """
        own = connection if self._source == OWN else self._ways.index
        await own.execute(
            self._sql["index_rejected"],
            [row_fingerprint(self._source, row["id"]) for row, _ in refused],
            [refusal.error_class for _, refusal in refused],
            [f"{self._source} {row['id']}: {refusal.detail}"[:_ERROR_CHARS] for row, refusal in refused],
        )

    def _report(self, left: Leftover) -> None:
        for row, refusal in left.refused:
            OUTBOX_REJECTED.labels(refusal.error_class).inc()
            if row["sealed"] and refusal.error_class in {"lost_key", "tampered"}:
                OUTBOX_UNSEALABLE.labels(self._source, refusal.error_class).inc()
            _log.error(
                "outbox_row_rejected",
                source=self._source,
                outbox_id=str(row["id"]),
                error_class=refusal.error_class,
                detail=refusal.detail,
            )
        for key_id, rows in Counter(postponed.key_id for _, postponed in left.postponed).items():
            OUTBOX_UNSEALABLE.labels(self._source, "unknown_key").inc(rows)
            _log.warning(
                "outbox_rows_wait_for_a_key",
                source=self._source,
                key_id=key_id,
                rows=rows,
                remedy="give this relay the ring that has the key, or record it as lost (docs/security.md)",
            )


_RETURNED: Final = ("topic", "key", "payload", "headers", "available_at", "sequence", "ordered", "sealed")


def _headers(text: str) -> list[tuple[str, bytes]]:
    """Texts as they are, other values as JSON. ValueError for what is no object, or beyond any reader's bounds."""
    if text == "{}":
        return []
    found = orjson.loads(text)
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  as for JSON that does not decode
    return [(name, value.encode() if isinstance(value, str) else orjson.dumps(value)) for name, value in found.items()]


def _refusal(row: asyncpg.Record, reason: str) -> Refusal:
    if "SIZE_TOO_LARGE" in reason:
        return Refusal("oversized", f"{len(row['payload'])} bytes are more than the broker takes (K15)")
    return Refusal("invalid_record", reason[:200])


def _error(refusal: Refusal) -> str:
    return f"{refusal.error_class}: {refusal.detail}"[:_ERROR_CHARS]
