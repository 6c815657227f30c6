"""What follows from outcomes, in the transaction that writes them: log lines, receipts that waited, addresses that are
gone, codes that nobody needs any more, dead letters.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason, ReceiptKind, after_receipt
from shared.core.reference import DeliveryKey
from shared.delivery.plan import Record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import Lane, MessageClass

_SQL: Final = load_queries("delivery")


class Changed(NamedTuple):
    """What a row holds after its record was written."""

    record: Record
    status: DeliveryStatus
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of `delivery_log`."""

    key: DeliveryKey
    kind: str
    attempt: int
    result: str
    reason: Reason | None
    provider: str | None
    detail: str | None


def dead_letter_fingerprint(key: DeliveryKey, attempt: int) -> bytes:
    """The same for the same delivery and attempt, so that a dead letter written twice is one entry."""
    return hashlib.sha256(f"{key.reference}|{attempt}".encode()).digest()


class Consequences:
    """Of one lane's outcomes. Each method is a part of the caller's transaction and raises what asyncpg raises."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._channel = lane.channel

    async def apply_parked(
        self, connection: Connection, records: Sequence[Record], changed: Sequence[Changed], now: datetime
    ) -> tuple[Sequence[Changed], list[Line]]:
        """Receipts that were quicker than the outcome; a final state is reached whatever their order."""
        # Nearly always none, and to ask so needs no arrays of keys.
        bounds = (records[0].key.notification_id, records[-1].key.notification_id)
        if not changed or not await connection.fetchval(_SQL["has_parked_receipts"], *bounds, self._channel):
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
            lines.append(Line(key, "receipt", receipt["attempt"], kind, None, receipt["provider"], receipt["detail"]))
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

    async def of_records(
        self, connection: Connection, ordered: Sequence[Record], changed: Sequence[Changed], now: datetime
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
        await self.clear_codes(
            connection,
            (change.record.key.notification_id for change in changed if change.status is DeliveryStatus.SKIPPED),
        )
        await self.index_dead_letters(
            connection,
            [
                (change.record.key, change.record.attempt, change.record.reason, change.record.last_error or "")
                for change in changed
                if change.record.dead_letter
            ],
            now,
        )

    async def index_dead_letters(
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

    async def clear_codes(self, connection: Connection, ended: Iterable[UUID]) -> None:
        if self._lane.message_class is not MessageClass.CRITICAL or self._channel != "SMS":
            return
        ids = sorted(set(ended))
        if ids:
            await connection.execute(_SQL["clear_codes"], ids, ids[0], ids[-1])

    async def log(self, connection: Connection, lines: Sequence[Line]) -> None:
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
