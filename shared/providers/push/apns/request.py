"""A message as an APNs request. Pure. Source: Apple, "Sending notification requests to APNs"."""

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.ports import Prepared
from shared.wire.channel import MessageClass

MAX_PAYLOAD_BYTES: Final = 4096
MAX_COLLAPSE_ID_BYTES: Final = 64


class RefusedError(ValueError):
    """Known to be refused, so not sent (P7)."""


@dataclass(frozen=True, slots=True)
class ApnsRequest:
    """What is the same whoever carries it. repr hides what is personal."""

    token: str = field(repr=False)
    headers: dict[str, str]
    payload: dict[str, Any] = field(repr=False)
    body: bytes = field(repr=False)


def build(message: Prepared, default_topic: str) -> ApnsRequest:
    """The request of one push, without authorization; RefusedError for what is over Apple's limits.

    The limits count encoded UTF-8 bytes; orjson writes `ş` as its two bytes, not as six of an escape. apns-expiration
    is always sent, also where it is 0: without it Apple keeps a push as it likes.
    """
    alert = {"title": message.content["title"], "body": message.content["body"]}
    payload: dict[str, Any] = {
        "aps": {"alert": alert, "sound": "default"},
        "notificationId": public_id(NOTIFICATION, message.key.notification_id),
    }
    if message.campaign_id is not None:
        payload["campaignId"] = public_id("cmp", message.campaign_id)
    if message.content.get("url"):
        payload["url"] = message.content["url"]
    body = orjson.dumps(payload)
    if len(body) > MAX_PAYLOAD_BYTES:
        raise RefusedError(f"payload of {len(body)} bytes, over {MAX_PAYLOAD_BYTES:,}: shorten title, body or url")
    headers = {
        "apns-id": message.key.reference_uuid_text,
        "apns-topic": message.app_id or default_topic,
        "apns-push-type": "alert",
        # 10 wakes the device at once; campaigns may wait for it to wake by itself.
        "apns-priority": "10" if message.message_class <= MessageClass.TX else "5",
        "apns-expiration": str(int(message.expires_at.timestamp())),
    }
    if message.collapse_key:
        if len(message.collapse_key.encode()) > MAX_COLLAPSE_ID_BYTES:
            raise RefusedError(f"collapse key over {MAX_COLLAPSE_ID_BYTES} bytes: shorten it")
        headers["apns-collapse-id"] = message.collapse_key
    return ApnsRequest(message.address, headers, payload, body)
