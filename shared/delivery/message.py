"""What the pipeline publishes: events, hints that are still owed. Pure."""

from datetime import datetime

from shared.core.event import delivery_event
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.delivery.row import DeliveryRow, Owed
from shared.kafka.record import Record
from shared.wire.channel import Lane
from shared.wire.message import encode
from shared.wire.topic import DELIVERY_EVENTS


def event_record(
    key: DeliveryKey,
    *,
    status: DeliveryStatus,
    reason: Reason | None,
    attempt: int,
    provider: str | None,
    at: datetime,
) -> Record:
    """The `delivery-events` record of one settled status."""
    name, value, headers = delivery_event(key, status=status, reason=reason, attempt=attempt, provider=provider, at=at)
    return Record(DELIVERY_EVENTS, name, value, headers)


def last_event(row: DeliveryRow) -> Record:
    """The event of a settled row again, equal to the last byte."""
    return event_record(
        row.key,
        status=row.status,
        reason=row.reason,
        attempt=row.attempt,
        provider=row.provider,
        at=row.updated_at,
    )


def hint_record(owed: Owed, lane: Lane, key: bytes | None, trace: bytes | None) -> Record:
    """An owed hint for its retry tier, or for the lane; key and traceparent are those of the message it came by."""
    topic = lane.topic if owed.tier_sec is None else lane.retry_topic(owed.tier_sec)
    value, headers = encode(owed.hint)
    if trace is not None:
        headers.append(("traceparent", trace))
    return Record(topic, key, value, headers)
