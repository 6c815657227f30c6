"""What the router says after a commit: hints to the lanes, events of what it settled itself. Pure."""

from collections.abc import Iterable
from datetime import datetime

from services.router.notification import Owed
from shared.core.event import delivery_event
from shared.core.lifecycle import DeliveryStatus
from shared.kafka.record import Record
from shared.wire.channel import Channels, MessageClass
from shared.wire.message import HEADER_TRACEPARENT, DeliveryHint, encode
from shared.wire.topic import DELIVERY_EVENTS


def records(owed: Iterable[Owed], channels: Channels, now: datetime) -> list[Record]:
    """One record per delivery: PENDING goes to its lane, anything else is told on `delivery-events`.

    A hint's key is the user id, so that one user's messages share a partition; without a user, the notification id.
    A delivery whose channel this installation does not have any more is told to nobody: its row says config.
    """
    topics: dict[tuple[str, MessageClass], str] = {}
    found: list[Record] = []
    for delivery in owed:
        if delivery.status is not DeliveryStatus.PENDING:
            found.append(_event(delivery))
        elif delivery.key.channel in channels:
            lane = (delivery.key.channel, delivery.message_class)
            if lane not in topics:
                topics[lane] = channels.spec(lane[0]).lane(lane[1]).topic
            found.append(_hint(delivery, topics[lane], now))
    return found


def _hint(delivery: Owed, topic: str, now: datetime) -> Record:
    key, due = delivery.key, delivery.next_attempt_at
    value, headers = encode(
        DeliveryHint(
            key.notification_id,
            key.channel,
            key.target_key,
            delivery.attempt,
            delivery.message_class,
            not_before=due if due > now else None,
        )
    )
    if delivery.traceparent is not None:
        headers.append((HEADER_TRACEPARENT, delivery.traceparent.encode()))
    owner = key.notification_id if delivery.user_id is None else delivery.user_id
    return Record(topic, str(owner).encode(), value, headers)


def _event(delivery: Owed) -> Record:
    key, value, headers = delivery_event(
        delivery.key,
        status=delivery.status,
        reason=delivery.reason,
        attempt=delivery.attempt,
        provider=None,
        at=delivery.updated_at,
    )
    return Record(DELIVERY_EVENTS, key, value, headers)
