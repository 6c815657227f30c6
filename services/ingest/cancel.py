"""Cancelling notifications: what waits is stopped, what is on the wire is not tried again, the rest is out."""

from collections import defaultdict
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
from shared.delivery.request import clear_requests
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
    reason: str | None
    attempt: int
    provider: str | None


@dataclass(frozen=True, slots=True)
class Locked:
    """One notification as it stood when it was locked."""

    id: UUID
    state: NotificationState
    message_class: MessageClass
    deliveries: Sequence[LockedDelivery]

    @property
    def counts(self) -> Counts:
        return count(self.state, [delivery.status for delivery in self.deliveries])


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
        """Cancel and count; None for a notification that is not there (or not this application's)."""
        found = await self.cancel_all([notification_id], application)
        return found[0].counts if found else None

    async def cancel_all(self, ids: Sequence[UUID], application: int | None) -> Sequence[Locked]:
        """Cancel what of these can be stopped, in one transaction; all of them as they stood before.

        Where nothing is stopped, nothing is changed. ids: in order. UnavailableError if PostgreSQL cannot be asked.
        """
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                found = await self._lock(connection, ids, application)
                outgoing = await self._write(connection, [each for each in found if each.counts.stopped])
        self._publisher.publish([item.outbox_id for item in outgoing], [item.record for item in outgoing])
        return found

    async def _lock(self, connection: Connection, ids: Sequence[UUID], application: int | None) -> list[Locked]:
        bounds = (ids, ids[0], ids[-1])
        notifications = await connection.fetch(self._queries["lock_notifications"], *bounds, application)
        if not notifications:
            return []
        present = [row["id"] for row in notifications]
        deliveries: defaultdict[UUID, list[LockedDelivery]] = defaultdict(list)
        for row in await connection.fetch(self._queries["lock_deliveries"], present, present[0], present[-1]):
            deliveries[row["notification_id"]].append(
                LockedDelivery(
                    DeliveryKey(row["notification_id"], row["channel"], row["target_key"]),
                    DeliveryStatus(row["status"]),
                    row["reason"],
                    row["attempt"],
                    row["provider"],
                )
            )
        return [
            Locked(
                row["id"], NotificationState(row["state"]), MessageClass(row["message_class"]), deliveries[row["id"]]
            )
            for row in notifications
        ]

    async def _write(self, connection: Connection, stopped: Sequence[Locked]) -> list[Outgoing]:
        if not stopped:
            return []
        now = self._clock()
        ids = [each.id for each in stopped]
        await connection.execute(self._queries["cancel_notifications"], ids, ids[0], ids[-1], now)
        await connection.execute(self._queries["cancel_deliveries"], ids, ids[0], ids[-1], now)
        ended = [each.id for each in stopped if not each.counts.in_flight]
        if ended:
            await connection.execute(self._queries["forget_due"], ended)
            await connection.execute(self._queries["clear_codes"], ended, ended[0], ended[-1])
        pending = [
            (delivery, each.message_class)
            for each in stopped
            for delivery in each.deliveries
            if delivery.status is DeliveryStatus.PENDING
        ]
        await clear_requests(connection, (delivery.key for delivery, _ in pending))
        await add_log(
            connection,
            [
                LogEntry(item.key, new_id(), "operator", "skip", Reason.CANCELLED, "cancelled by the caller")
                for item, _ in pending
            ],
        )
        outgoing: list[Outgoing] = []
        for message_class in MessageClass:
            events = [
                skipped_event(item.key, Reason.CANCELLED, item.attempt, item.provider, now)
                for item, of_class in pending
                if of_class is message_class
            ]
            await add_outbox(connection, events, message_class, now + timedelta(seconds=OUTBOX_DELAY_SEC))
            outgoing += events
        return outgoing
