"""A message as an APNs request. Pure. Source: Apple, "Sending notification requests to APNs"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.ports import Prepared
from shared.wire.channel import DATA, MessageClass

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


def build(message: Prepared, default_topic: str, now: datetime) -> ApnsRequest:
    """The request of one push, without authorization; RefusedError for what is over Apple's limits.

    The limits count encoded UTF-8 bytes; orjson writes `ş` as its two bytes, not as six of an escape.
    """
    content = message.content
    payload: dict[str, Any] = {
        "aps": _aps(content),
        "notificationId": public_id(NOTIFICATION, message.key.notification_id),
    }
    if message.campaign_id is not None:
        payload["campaignId"] = public_id("cmp", message.campaign_id)
    for name in ("url", "image"):
        if content.get(name):
            payload[name] = content[name]
    if len(content) > 2:
        payload |= {name.removeprefix(DATA): text for name, text in content.items() if name.startswith(DATA)}
    body = orjson.dumps(payload)
    if len(body) > MAX_PAYLOAD_BYTES:
        raise RefusedError(
            f"payload of {len(body)} bytes, over {MAX_PAYLOAD_BYTES:,}: shorten title, body, url or data"
        )
    headers = {
        "apns-id": message.key.reference_uuid_text,
        "apns-topic": message.app_id or default_topic,
        "apns-push-type": "alert",
        # 10 wakes the device at once; campaigns may wait for it to wake by itself.
        "apns-priority": "10" if message.message_class <= MessageClass.TX else "5",
        "apns-expiration": str(_expiration(message, now)),
    }
    collapse_key = message.collapse_key or content.get("collapseKey")
    if collapse_key:
        if len(collapse_key.encode()) > MAX_COLLAPSE_ID_BYTES:
            raise RefusedError(f"collapse key over {MAX_COLLAPSE_ID_BYTES} bytes: shorten it")
        headers["apns-collapse-id"] = collapse_key
    return ApnsRequest(message.address, headers, payload, body)


def _expiration(message: Prepared, now: datetime) -> int:
    """Until when Apple may keep it for a phone that is off: always said, also where it is 0, which is not at all;
    without it Apple keeps a push as it likes.
    """
    ttl = message.content.get("ttl")
    if ttl == "0":
        return 0
    until = message.expires_at if ttl is None else min(message.expires_at, now + timedelta(seconds=int(ttl)))
    return int(until.timestamp())


def _aps(content: Mapping[str, str]) -> dict[str, Any]:
    """Apple's part. A sound called `none` is no sound; an image is fetched by the app's own service extension, which
    `mutable-content` wakes.
    """
    aps: dict[str, Any] = {"alert": {"title": content["title"], "body": content["body"]}, "sound": "default"}
    if len(content) == 2:
        return aps
    sound = content.get("sound", "default")
    if sound == "none":
        del aps["sound"]
    else:
        aps["sound"] = sound
    if "badge" in content:
        aps["badge"] = int(content["badge"])
    if "threadId" in content:
        aps["thread-id"] = content["threadId"]
    if "image" in content:
        aps["mutable-content"] = 1
    return aps
