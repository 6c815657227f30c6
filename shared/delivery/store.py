"""The pipeline's statements: read, claim, settle, record. Each is one transaction; none is open during a send."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
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


@dataclass(frozen=True, slots=True)
class Changed:
    """What a row holds after it was written."""

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class OpenDeadLetter:
    error_class: str
    detail: str


def dead_letter_fingerprint(key: DeliveryKey, attempt: int) -> bytes:
    """The same for the same delivery and attempt, so that a dead letter written twice is one entry."""
    return hashlib.sha256(f"{key.reference}|{attempt}".encode()).digest()


class DeliveryStore:
    """Deliveries of one lane. Raises what asyncpg raises; a failed call has changed nothing."""

    def __init__(self, pool: Pool, lane: Lane) -> None:
        self._pool = pool
        self._lane = lane
        self._channel = lane.channel

    async def load(self, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, DeliveryRow]:
        """The rows there are, with content and what decides about them, by key."""
        ids = sorted({key.notification_id for key in keys})
        bounds = (ids, ids[0], ids[-1], self._channel)
        records = await self._pool.fetch(_SQL["load_deliveries"], *bounds)
        withdrawn: set[UUID] = set()
        if self._lane.message_class >= MessageClass.BULK:
            withdrawn = {record[0] for record in await self._pool.fetch(_SQL["load_withdrawn"], *bounds)}
        rows = (_row(self._channel, record, withdrawn) for record in records)
        return {row.key: row for row in rows if row.key in keys}

    async def claim(
        self, rows: Sequence[DeliveryRow], *, claim_id: UUID, provider: str, now: datetime, lease_until: datetime
    ) -> frozenset[DeliveryKey]:
        """PENDING -> SENDING for those that may still go out, with one lease for all; the keys that are ours now."""
        ordered = sorted(rows, key=lambda row: row.key)
        ids = [row.key.notification_id for row in ordered]
        records = await self._pool.fetch(
            _SQL["claim_deliveries"],
            ids,
            ids[0],
            ids[-1],
            [row.key.target_key for row in ordered],
            [row.attempt for row in ordered],
            self._channel,
            claim_id,
            lease_until,
            now,
            self._lane.name,
            provider,
        )
        return frozenset(DeliveryKey(record[0], self._channel, record[1]) for record in records)

    async def settle(self, settled: Sequence[Settled], now: datetime) -> frozenset[DeliveryKey]:
        """End rows that were never claimed; the keys of those that were still PENDING."""
        ordered = sorted(settled, key=lambda entry: entry.row.key)
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

    async def record(self, records: Sequence[Record], *, claim_id: UUID, now: datetime) -> Sequence[Changed]:
        """Write a claim's outcomes and end its lease, in one transaction; what the rows hold now.

        Rows that are no longer this claim's (a receipt was quicker, or the lease ran out) are not in the answer; their
        attempts are logged all the same.
        """
        ordered = sorted(records, key=lambda record: record.key)
        async with self._pool.acquire() as connection, connection.transaction():
            changed = await self._write(connection, ordered, claim_id, now)
            lines = [
                _Line(
                    record.key,
                    "attempt",
                    record.attempt,
                    record.log.result,
                    record.log.reason,
                    record.provider,
                    record.log.detail,
                )
                for record in ordered
                if record.log is not None
            ]
            changed, receipts = await self._apply_parked(connection, changed, {r.key: r.attempt for r in ordered}, now)
            await self._log(connection, [*lines, *receipts])
            await self._side_effects(connection, ordered, changed, now)
            await connection.execute(_SQL["remove_lease"], claim_id)
        return tuple(changed.values())

    async def open_dead_letters(self, rows: Collection[DeliveryRow]) -> Mapping[DeliveryKey, OpenDeadLetter]:
        """Those of the rows that have an open dead letter for their last attempt."""
        by_fingerprint = {dead_letter_fingerprint(row.key, row.attempt): row.key for row in rows}
        if not by_fingerprint:
            return {}
        found = await self._pool.fetch(_SQL["open_dead_letters"], self._lane.dlq_topic, list(by_fingerprint))
        return {by_fingerprint[record[0]]: OpenDeadLetter(record[1], record[2] or "") for record in found}

    async def _write(
        self, connection: Connection, ordered: Sequence[Record], claim_id: UUID, now: datetime
    ) -> dict[DeliveryKey, Changed]:
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
            [record.reason for record in ordered],
            [record.attempt for record in ordered],
            [record.next_attempt_at for record in ordered],
            [record.provider_message_id for record in ordered],
            [record.last_error for record in ordered],
        )
        changed = {}
        for notification_id, target_key, status, reason in written:
            key = DeliveryKey(notification_id, self._channel, target_key)
            changed[key] = Changed(key, _STATUS[status], _REASON[reason])
        return changed

    async def _apply_parked(
        self,
        connection: Connection,
        changed: dict[DeliveryKey, Changed],
        attempts: Mapping[DeliveryKey, int],
        now: datetime,
    ) -> tuple[dict[DeliveryKey, Changed], list["_Line"]]:
        """Receipts that were quicker than the outcome; a final state is reached whatever their order."""
        if not changed:
            return changed, []
        parked = await connection.fetch(
            _SQL["take_parked_receipts"],
            [key.notification_id for key in changed],
            [key.target_key for key in changed],
            self._channel,
        )
        if not parked:
            return changed, []
        result, moved, lines = dict(changed), set[DeliveryKey](), []
        for receipt in sorted(parked, key=lambda receipt: receipt["received_at"]):
            key = DeliveryKey(receipt["notification_id"], self._channel, receipt["target_key"])
            kind = ReceiptKind(receipt["kind"])
            lines.append(_Line(key, "receipt", receipt["attempt"], kind, None, receipt["provider"], receipt["detail"]))
            current = result[key]
            following = after_receipt(
                current.status,
                kind,
                receipt_attempt=receipt["attempt"],
                current_attempt=attempts[key],
                channel=self._channel,
            )
            if following is not None:
                reason = Reason.UNDELIVERED if following is DeliveryStatus.FAILED else None
                result[key] = replace(current, status=following, reason=reason)
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
        return result, lines

    async def _side_effects(
        self,
        connection: Connection,
        ordered: Sequence[Record],
        changed: Mapping[DeliveryKey, Changed],
        now: datetime,
    ) -> None:
        gone = sorted(record.key.target_key for record in ordered if record.target_gone)
        if gone and self._channel == "PUSH":
            await connection.execute(_SQL["switch_devices_off"], gone)
        elif gone:
            await connection.execute(_SQL["suppress_targets"], self._channel, gone)
        unknown = [key for key, change in changed.items() if change.status is DeliveryStatus.UNKNOWN]
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
            (key.notification_id for key, change in changed.items() if change.status is DeliveryStatus.SKIPPED),
        )
        await self._index_dead_letters(
            connection,
            [
                (record.key, record.attempt, record.reason, record.last_error or "")
                for record in ordered
                if record.dead_letter and record.key in changed
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
