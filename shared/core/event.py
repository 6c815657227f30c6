"""`delivery-events`: what became of a delivery, told to other teams as CloudEvents (api.md, Events).

Every process that commits a settled status publishes one. The id is made from the change itself, so that a process that
cannot know whether it has published tells it again and readers drop the double.
"""

from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

import orjson

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey

SOURCE: Final = "/ulak"
CONTENT_TYPE: Final = "application/cloudevents+json"
"""Structured mode (CloudEvents Kafka binding 1.0.2, section 3.3)."""

_NAMESPACE: Final = UUID("b7e9a4b2-5a0e-4c1c-9d5f-3d1f0c6a7e55")
"""Drawn once; never change it, or every event gets a new id."""

EventRecord = tuple[bytes, bytes, list[tuple[str, bytes]]]
"""Key, value, headers: what a producer takes."""


def delivery_event_id(key: DeliveryKey, status: DeliveryStatus, attempt: int) -> UUID:
    """The same for the same change, whoever tells it and how often."""
    return uuid5(_NAMESPACE, f"{key.reference}|{status.value}|{attempt}")


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
    of that change (aware), so that a repetition is equal to the last byte. No address, no content: `data.reference`
    holds the target's keyed hash, which tells the devices of one user apart.
    """
    subject = public_id(NOTIFICATION, key.notification_id)
    event = {
        "specversion": "1.0",
        "id": str(delivery_event_id(key, status, attempt)),
        "source": SOURCE,
        "type": f"ulak.delivery.{status.lower()}.v1",
        "subject": subject,
        "time": at.isoformat(),
        "datacontenttype": "application/json",
        "data": {
            "notificationId": subject,
            "reference": key.reference,
            "channel": key.channel,
            "status": status,
            "reason": reason,
            "attempt": attempt,
            "provider": provider,
        },
    }
    return str(key.notification_id).encode(), orjson.dumps(event), [("content-type", CONTENT_TYPE.encode())]
