"""Status changes that ingest commits (cancelled, superseded): their events and log entries, in the transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from services.ingest.row import Message
from shared.core.event import delivery_event
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.kafka.record import Record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass
from shared.wire.topic import DELIVERY_EVENTS


@cache
def _queries() -> Mapping[str, str]:
    return load_queries("ingest")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message that has its own outbox row, because no Kafka input would bring it about again."""

    outbox_id: UUID
    key: bytes
    message: Message

    @property
    def record(self) -> Record:
        return self.message.record(self.key)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line of `delivery_log`; detail is for operators and holds no address, body or code."""

    delivery: DeliveryKey
    id: UUID
    kind: str
    result: str
    reason: Reason | None
    detail: str | None = None
    attempt: int | None = None


def skipped_event(delivery: DeliveryKey, reason: Reason, attempt: int, provider: str | None, at: datetime) -> Outgoing:
    """The `delivery-events` message of a delivery that will not go out."""
    key, value, headers = delivery_event(
        delivery, status=DeliveryStatus.SKIPPED, reason=reason, attempt=attempt, provider=provider, at=at
    )
    return Outgoing(new_id(), key, Message(DELIVERY_EVENTS, value, tuple(headers)))


async def add_outbox(
    connection: Connection, outgoing: Sequence[Outgoing], message_class: MessageClass, available_at: datetime
) -> None:
    """Write the messages' outbox rows; the relay takes those that are left at `available_at`."""
    if outgoing:
        await connection.execute(
            _queries()["add_outbox"],
            [item.outbox_id for item in outgoing],
            [message_class] * len(outgoing),
            [item.message.topic for item in outgoing],
            [item.key for item in outgoing],
            [item.message.payload for item in outgoing],
            [item.message.headers_json for item in outgoing],
            available_at,
        )


async def add_log(connection: Connection, entries: Sequence[LogEntry]) -> None:
    await connection.execute(
        _queries()["add_log"],
        [entry.delivery.notification_id for entry in entries],
        [entry.id for entry in entries],
        [entry.kind for entry in entries],
        [entry.delivery.channel for entry in entries],
        [entry.delivery.target_key for entry in entries],
        [entry.attempt for entry in entries],
        [entry.result for entry in entries],
        [entry.reason for entry in entries],
        [entry.detail for entry in entries],
    )
