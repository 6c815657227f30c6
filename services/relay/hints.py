"""Rows as hints: which topic, which key. Pure."""

from collections.abc import Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from shared.kafka.record import Record
from shared.wire.channel import Channels, MessageClass
from shared.wire.message import HEADER_TRACEPARENT, DeliveryHint, RequestHint, encode
from shared.wire.topic import notification_requests


class Row(Protocol):
    """A database record, read by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


_LOWEST: Final = UUID(int=0)


def bounds(ids: Sequence[UUID]) -> tuple[UUID, UUID]:
    """Smallest and largest, for `BETWEEN` beside `= ANY` (partition pruning); two zero ids for none."""
    return (min(ids), max(ids)) if ids else (_LOWEST, _LOWEST)


def request_record(row: Row) -> Record:
    """The request to decide a notification, on its class's topic. row: id, message_class, user_id, traceparent."""
    value, headers = encode(RequestHint(row["id"]))
    message_class = MessageClass(row["message_class"])
    return Record(notification_requests(message_class), _key(row["user_id"], row["id"]), value, _traced(headers, row))


def delivery_record(row: Row, channels: Channels, *, attempt: int | None = None) -> Record | None:
    """The request to work on a delivery, on its lane's topic; None for a channel this installation does not have.

    row: the delivery's key, attempt, message_class, campaign_id, chunk, and its notification's user_id, traceparent.
    attempt: another than the row's.
    """
    if row["channel"] not in channels:
        return None
    message_class = MessageClass(row["message_class"])
    hint = DeliveryHint(
        notification_id=row["notification_id"],
        channel=row["channel"],
        target_key=row["target_key"],
        attempt=row["attempt"] if attempt is None else attempt,
        message_class=message_class,
        campaign_id=row["campaign_id"],
        chunk=row["chunk"],
    )
    value, headers = encode(hint)
    lane = channels.spec(row["channel"]).lane(message_class)
    return Record(lane.topic, _key(row["user_id"], row["notification_id"]), value, _traced(headers, row))


def _key(user_id: int | None, notification_id: UUID) -> bytes:
    return str(notification_id if user_id is None else user_id).encode()


def _traced(headers: list[tuple[str, bytes]], row: Row) -> list[tuple[str, bytes]]:
    traceparent = row["traceparent"]
    return headers if traceparent is None else [*headers, (HEADER_TRACEPARENT, traceparent.encode())]
