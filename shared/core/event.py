"""`delivery-events`: what became of a delivery, told to other teams as CloudEvents (api.md, Events).

Every process that commits a settled status publishes one. The id is made from the change itself: delivery, status,
attempt and moment. So a process that cannot know whether it has published tells it again and readers drop the double,
while a delivery that fails once more after a requeue, at the same attempt, is told of under another id.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import orjson

from shared.core.identifier import NOTIFICATION, public_id, uuid_text
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey

SOURCE: Final = "/ulak"
CONTENT_TYPE: Final = "application/cloudevents+json"
"""Structured mode (CloudEvents Kafka binding 1.0.2, section 3.3)."""

_NAMESPACE: Final = UUID("b7e9a4b2-5a0e-4c1c-9d5f-3d1f0c6a7e55").bytes
"""Drawn once; never change it, or every event gets a new id."""

_IN_NAMESPACE: Final = hashlib.sha1(_NAMESPACE, usedforsecurity=False)
"""Copied for each id, which costs less than to begin anew."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

_TYPE: Final = {status: f"ulak.delivery.{status.value.lower()}.v1" for status in DeliveryStatus}
_HEADERS: Final = (("content-type", CONTENT_TYPE.encode()),)

EventRecord = tuple[bytes, bytes, list[tuple[str, bytes]]]
"""Key, value, headers: what a producer takes."""


def _event_id(reference: str, status: DeliveryStatus, attempt: int, at: datetime) -> str:
    """UUID version 5 of our namespace (RFC 9562 section 5.5), as text; of `at` all that the database keeps of it."""
    name = _IN_NAMESPACE.copy()
    name.update(f"{reference}|{status}|{attempt}|{(at - _EPOCH) // _MICROSECOND}".encode())
    return uuid_text(name.hexdigest(), 5)


def delivery_event(
    key: DeliveryKey,
    *,
    status: DeliveryStatus,
    reason: Reason | None,
    attempt: int,
    provider: str | None,
    at: datetime,
) -> EventRecord:
    """The event of one status, as (key, value, headers) for the topic `delivery-events`.

    The key is the notification's id, so that one notification's events stay in order. `at` is the row's `updated_at`
    of that change (aware, UTC), so that a repetition is equal to the last byte, its id included. No address, no
    content: `data.reference` holds the target's keyed hash, which tells the devices of one user apart.
    """
    subject = public_id(NOTIFICATION, key.notification_id)
    reference = key.reference
    event = {
        "specversion": "1.0",
        "id": _event_id(reference, status, attempt, at),
        "source": SOURCE,
        "type": _TYPE[status],
        "subject": subject,
        "time": at,
        "datacontenttype": "application/json",
        "data": {
            "notificationId": subject,
            "reference": reference,
            "channel": key.channel,
            "status": status,
            "reason": reason,
            "attempt": attempt,
            "provider": provider,
        },
    }
    return str(key.notification_id).encode(), orjson.dumps(event), list(_HEADERS)
