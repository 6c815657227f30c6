"""The pipeline's statements: read, claim, settle, record. Each is one transaction; none is open during a send."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason, ReceiptKind, after_receipt
from shared.core.reference import DeliveryKey
from shared.delivery.plan import Record
from shared.delivery.row import DeliveryRow
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Lane, MessageClass, Promise

_SQL: Final = load_queries("delivery")
_number: Final = attrgetter("int")
"""UUIDs sort by their number as the database does, without a Python comparison each."""
T = TypeVar("T")

# By value: an enum's own look-up costs several times as much, and every row needs four.
_STATUS: Final = {status.value: status for status in DeliveryStatus}
_REASON: Final[Mapping[str | None, Reason | None]] = {None: None} | {reason.value: reason for reason in Reason}
_CLASS: Final = {message_class.value: message_class for message_class in MessageClass}
_PROMISE: Final = {promise.value: promise for promise in Promise}


@dataclass(frozen=True, slots=True)
class Settled:
    """PENDING -> SKIPPED or FAILED without a claim."""

    row: DeliveryRow
    status: DeliveryStatus
    reason: Reason
    detail: str | None = None
    dead_letter: bool = False


class Changed(NamedTuple):
    """What a row holds after its record was written."""

    record: Record
    status: DeliveryStatus
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class OpenDeadLetter:
    error_class: str
    detail: str


def dead_letter_fingerprint(key: DeliveryKey, attempt: int) -> bytes:
    """The same for the same delivery and attempt, so that a dead letter written twice is one entry."""
    return hashlib.sha256(f"{key.reference}|{attempt}".encode()).digest()


def in_key_order(entries: Iterable[T], key: Callable[[T], DeliveryKey]) -> list[T]:
    """Deliveries of one channel in the order of their rows, which is the order batches lock in."""
    return sorted(entries, key=lambda entry: ((found := key(entry)).notification_id.int, found.target_key))


def _sparse(column: list[Any]) -> list[Any]:
    """Nothing at all for a column without values: unnest pads with NULL, and most outcomes are plain successes."""
    return [] if all(value is None for value in column) else column


class DeliveryStore:
    """Deliveries of one lane. Raises what asyncpg raises; a failed call has changed nothing."""

    def __init__(self, pool: Pool, lane: Lane) -> None:
        self._pool = pool
        self._lane = lane
        self._channel = lane.channel

    async def load(self, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, DeliveryRow]:
        """The rows there are, with content and what decides about them, by key.

        Other targets of the same notifications may be among them.
        """
        ids = sorted({key.notification_id for key in keys}, key=_number)
        bounds = (ids, ids[0], ids[-1], self._channel)
        records = await self._pool.fetch(_SQL["load_deliveries"], *bounds)
        withdrawn: set[UUID] = set()
        if self._lane.message_class >= MessageClass.BULK:
            withdrawn = {record[0] for record in await self._pool.fetch(_SQL["load_withdrawn"], *bounds)}
        rows = (_row(self._channel, record, withdrawn) for record in records)
        return {row.key: row for row in rows}

    async def claim(
        self, rows: Sequence[DeliveryRow], *, claim_id: UUID, provider: str, now: datetime, lease_until: datetime
    ) -> frozenset[int]:
        """PENDING -> SENDING for those that may still go out, with one lease for all; which of `rows` are ours now.

        rows: in key order, as `in_key_order` gives them.
        """
        ids = [row.key.notification_id for row in rows]
        records = await self._pool.fetch(
            _SQL["claim_deliveries"],
            ids,
            ids[0],
            ids[-1],
            [row.key.target_key for row in rows],
            [row.attempt for row in rows],
            self._channel,
            claim_id,
            lease_until,
            now,
            self._lane.name,
            provider,
        )
        return frozenset(record[0] - 1 for record in records)

    async def settle(self, settled: Sequence[Settled], now: datetime) -> frozenset[DeliveryKey]:
        """End rows that were never claimed; the keys of those that were still PENDING."""
        ordered = in_key_order(settled, lambda entry: entry.row.key)
        ids = [entry.row.key.notification_id for entry in ordered]
        async with self._pool.acquire() as connection, connection.transaction():
            records = await connection.fetch(
                _SQL["settle_pending"],
                ids,
                ids[0],
                ids[-1],
                self._channel,
                now,
                [entry.row.key.target_key for entry in ordered],
                [entry.status for entry in ordered],
                [entry.reason for entry in ordered],
                [entry.detail for entry in ordered],
            )
            keys = frozenset(DeliveryKey(record[0], self._channel, record[1]) for record in records)
            ended = [entry for entry in ordered if entry.row.key in keys]
            await self._log(
                connection,
                [
                    _Line(entry.row.key, "verdict", entry.row.attempt, "skip", entry.reason, None, entry.detail)
                    for entry in ended
                ],
            )
            await self._clear_codes(
                connection, (entry.row.key.notification_id for entry in ended if entry.status is DeliveryStatus.SKIPPED)
            )
            await self._index_dead_letters(
                connection,
                [
                    (entry.row.key, entry.row.attempt, entry.reason, entry.detail or "")
                    for entry in ended
                    if entry.dead_letter
                ],
                now,
            )
        return keys

    async def record(
        self, records: Sequence[Record], *, claim_id: UUID, now: datetime, ends_lease: bool = True
    ) -> Sequence[Changed]:
        """Write outcomes of a claim and, with its last ones, end its lease, in one transaction; what the rows hold now.

        records: in key order. Rows that are no longer this claim's (a receipt was quicker, or the lease ran out) are
        not in the answer; their attempts are logged all the same.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            changed = await self._write(connection, records, claim_id, now, ends_lease=ends_lease)
            lines = [
                _Line(r.key, "attempt", r.attempt, r.log.result, r.log.reason, r.provider, r.log.detail)
                for r in records
                if r.log is not None
            ]
            changed, receipts = await self._apply_parked(connection, changed, now)
            await self._log(connection, [*lines, *receipts])
            await self._side_effects(connection, records, changed, now)
        return changed

    async def open_dead_letters(self, rows: Collection[DeliveryRow]) -> Mapping[DeliveryKey, OpenDeadLetter]:
        """Those of the rows that have an open dead letter for their last attempt."""
        by_fingerprint = {dead_letter_fingerprint(row.key, row.attempt): row.key for row in rows}
        if not by_fingerprint:
            return {}
        found = await self._pool.fetch(_SQL["open_dead_letters"], self._lane.dlq_topic, list(by_fingerprint))
        return {by_fingerprint[record[0]]: OpenDeadLetter(record[1], record[2] or "") for record in found}

    async def _write(
        self, connection: Connection, ordered: Sequence[Record], claim_id: UUID, now: datetime, *, ends_lease: bool
    ) -> Sequence[Changed]:
        ids = [record.key.notification_id for record in ordered]
        written = await connection.fetch(
            _SQL["record_outcomes"],
            ids,
            ids[0],
            ids[-1],
            self._channel,
            claim_id,
            now,
            [record.key.target_key for record in ordered],
            [record.status for record in ordered],
            _sparse([record.reason for record in ordered]),
            [record.attempt for record in ordered],
            _sparse([record.next_attempt_at for record in ordered]),
            [record.provider_message_id for record in ordered],
            _sparse([record.last_error for record in ordered]),
            ends_lease,
        )
        return [Changed(ordered[place - 1], _STATUS[status], _REASON[reason]) for place, status, reason in written]

    async def _apply_parked(
        self, connection: Connection, changed: Sequence[Changed], now: datetime
    ) -> tuple[Sequence[Changed], list["_Line"]]:
        """Receipts that were quicker than the outcome; a final state is reached whatever their order."""
        if not changed:
            return changed, []
        parked = await connection.fetch(
            _SQL["take_parked_receipts"],
            [change.record.key.notification_id for change in changed],
            [change.record.key.target_key for change in changed],
            self._channel,
        )
        if not parked:
            return changed, []
        result, moved, lines = {change.record.key: change for change in changed}, set[DeliveryKey](), []
        for receipt in sorted(parked, key=lambda receipt: receipt["received_at"]):
            key = DeliveryKey(receipt["notification_id"], self._channel, receipt["target_key"])
            kind = ReceiptKind(receipt["kind"])
            lines.append(_Line(key, "receipt", receipt["attempt"], kind, None, receipt["provider"], receipt["detail"]))
            current = result[key]
            following = after_receipt(
                current.status,
                kind,
                receipt_attempt=receipt["attempt"],
                current_attempt=current.record.attempt,
                channel=self._channel,
            )
            if following is not None:
                reason = Reason.UNDELIVERED if following is DeliveryStatus.FAILED else None
                result[key] = current._replace(status=following, reason=reason)
                moved.add(key)
        if moved:
            ordered = sorted(moved)
            ids = [key.notification_id for key in ordered]
            await connection.execute(
                _SQL["apply_receipts"],
                ids,
                ids[0],
                ids[-1],
                self._channel,
                now,
                [key.target_key for key in ordered],
                [result[key].status for key in ordered],
                [result[key].reason for key in ordered],
            )
        return tuple(result.values()), lines

    async def _side_effects(
        self,
        connection: Connection,
        ordered: Sequence[Record],
        changed: Sequence[Changed],
        now: datetime,
    ) -> None:
        gone = sorted(record.key.target_key for record in ordered if record.target_gone)
        if gone and self._channel == "PUSH":
            await connection.execute(_SQL["switch_devices_off"], gone)
        elif gone:
            await connection.execute(_SQL["suppress_targets"], self._channel, gone)
        unknown = [change.record.key for change in changed if change.status is DeliveryStatus.UNKNOWN]
        if unknown:
            await connection.execute(
                _SQL["open_unknown"],
                [key.notification_id for key in unknown],
                [key.target_key for key in unknown],
                self._channel,
                now,
            )
        await self._clear_codes(
            connection,
            (change.record.key.notification_id for change in changed if change.status is DeliveryStatus.SKIPPED),
        )
        await self._index_dead_letters(
            connection,
            [
                (change.record.key, change.record.attempt, change.record.reason, change.record.last_error or "")
                for change in changed
                if change.record.dead_letter
            ],
            now,
        )

    async def _index_dead_letters(
        self,
        connection: Connection,
        letters: Sequence[tuple[DeliveryKey, int, Reason | None, str]],
        now: datetime,
    ) -> None:
        if letters:
            await connection.execute(
                _SQL["index_dead_letters"],
                self._lane.dlq_topic,
                self._channel,
                now,
                [dead_letter_fingerprint(key, attempt) for key, attempt, _, _ in letters],
                [key.notification_id for key, _, _, _ in letters],
                [key.target_key for key, _, _, _ in letters],
                [reason or "surprise" for _, _, reason, _ in letters],
                [detail for _, _, _, detail in letters],
            )

    async def _clear_codes(self, connection: Connection, ended: Iterable[UUID]) -> None:
        if self._lane.message_class is not MessageClass.CRITICAL or self._channel != "SMS":
            return
        ids = sorted(set(ended))
        if ids:
            await connection.execute(_SQL["clear_codes"], ids, ids[0], ids[-1])

    async def _log(self, connection: Connection, lines: Sequence["_Line"]) -> None:
        if lines:
            await connection.execute(
                _SQL["log_attempts"],
                [line.key.notification_id for line in lines],
                [new_id() for _ in lines],
                self._channel,
                [line.key.target_key for line in lines],
                [line.attempt for line in lines],
                [line.result for line in lines],
                [line.reason for line in lines],
                [line.provider for line in lines],
                [line.detail for line in lines],
                [line.kind for line in lines],
            )


@dataclass(frozen=True, slots=True)
class _Line:
    key: DeliveryKey
    kind: str
    attempt: int
    result: str
    reason: Reason | None
    provider: str | None
    detail: str | None


def _row(channel: str, record: Any, withdrawn: Collection[UUID]) -> DeliveryRow:
    (
        notification_id,
        target_key,
        status,
        reason,
        message_class,
        promise,
        mode,
        attempt,
        next_attempt_at,
        lease_until,
        provider,
        send_until,
        expires_at,
        created_at,
        updated_at,
        cancelled,
        suppressed,
        allowed,
        platform,
        app_id,
        campaign_id,
        chunk,
        collapse_key,
        address_sealed,
        content_sealed,
        content_purpose,
    ) = record
    return DeliveryRow(
        key=DeliveryKey(notification_id, channel, target_key),
        status=_STATUS[status],
        reason=_REASON[reason],
        message_class=_CLASS[message_class],
        promise=_PROMISE[promise],
        mode=mode,
        attempt=attempt,
        next_attempt_at=next_attempt_at,
        lease_until=lease_until,
        provider=provider,
        send_until=send_until,
        expires_at=expires_at,
        created_at=created_at,
        updated_at=updated_at,
        cancelled=cancelled,
        suppressed=suppressed,
        allowed=allowed,
        withdrawn=notification_id in withdrawn,
        platform=platform,
        app_id=app_id or "",
        campaign_id=campaign_id,
        chunk=chunk,
        collapse_key=collapse_key,
        address_sealed=address_sealed,
        content_sealed=content_sealed,
        content_purpose=content_purpose,
    )
