"""Cancelling a notification: what waits is stopped, what is on the wire is not tried again, the rest is out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.outgoing import LogEntry, Outgoing, add_log, add_outbox, skipped_event
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass

_OUT: Final = frozenset({DeliveryStatus.SENT, DeliveryStatus.DELIVERED, DeliveryStatus.UNKNOWN, DeliveryStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Counts:
    """Deliveries by what the cancel meant for them. SKIPPED ones are in none: they were never going out."""

    cancelled: int
    in_flight: int
    already_out: int

    @property
    def stopped(self) -> bool:
        return self.cancelled > 0 or self.in_flight > 0


@dataclass(frozen=True, slots=True)
class LockedDelivery:
    key: DeliveryKey
    status: DeliveryStatus
    attempt: int
    provider: str | None


def count(state: NotificationState, statuses: Sequence[DeliveryStatus]) -> Counts:
    """What a cancel stops. A notification that is not decided yet has no deliveries and counts as one cancelled."""
    out = sum(status in _OUT for status in statuses)
    match state:
        case NotificationState.CANCELLED:
            return Counts(0, 0, out)
        case NotificationState.ACCEPTED | NotificationState.DEFERRED:
            return Counts(1, 0, out)
        case NotificationState.DECIDED:
            return Counts(
                sum(status is DeliveryStatus.PENDING for status in statuses),
                sum(status is DeliveryStatus.SENDING for status in statuses),
                out,
            )


class Canceller:
    def __init__(self, pool: Pool, publisher: FastPublisher, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._publisher = publisher
        self._clock = clock
        self._queries = load_queries("ingest")

    async def cancel(self, notification_id: UUID, application: int | None) -> Counts | None:
        """Cancel and count, in one transaction; None for a notification that is not there (or not this application's).

        Where nothing is stopped, nothing is changed.
        """
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await connection.fetchrow(self._queries["lock_notification"], notification_id, application)
                if found is None:
                    return None
                deliveries = await self._lock_deliveries(connection, notification_id)
                counts = count(NotificationState(found["state"]), [delivery.status for delivery in deliveries])
                if not counts.stopped:
                    return counts
                outgoing = await self._write(
                    connection, notification_id, deliveries, MessageClass(found["message_class"])
                )
        self._publisher.publish([item.outbox_id for item in outgoing], [item.record for item in outgoing])
        return counts

    async def _lock_deliveries(self, connection: Connection, notification_id: UUID) -> list[LockedDelivery]:
        rows = await connection.fetch(self._queries["lock_deliveries"], notification_id)
        return [
            LockedDelivery(
                DeliveryKey(notification_id, row["channel"], row["target_key"]),
                DeliveryStatus(row["status"]),
                row["attempt"],
                row["provider"],
            )
            for row in rows
        ]

    async def _write(
        self,
        connection: Connection,
        notification_id: UUID,
        deliveries: Sequence[LockedDelivery],
        message_class: MessageClass,
    ) -> list[Outgoing]:
        now = self._clock()
        await connection.execute(self._queries["cancel_notification"], notification_id, now)
        await connection.execute(self._queries["cancel_deliveries"], notification_id, now)
        pending = [delivery for delivery in deliveries if delivery.status is DeliveryStatus.PENDING]
        if not any(delivery.status is DeliveryStatus.SENDING for delivery in deliveries):
            await connection.execute(self._queries["forget_due"], notification_id)
            await connection.execute(self._queries["clear_codes"], [notification_id], notification_id, notification_id)
        await add_log(
            connection,
            [
                LogEntry(item.key, new_id(), "operator", "skip", Reason.CANCELLED, "cancelled by the caller")
                for item in pending
            ],
        )
        outgoing = [skipped_event(item.key, Reason.CANCELLED, item.attempt, item.provider, now) for item in pending]
        await add_outbox(connection, outgoing, message_class, now + timedelta(seconds=OUTBOX_DELAY_SEC))
        return outgoing
