"""A message as a Web Push request, but for its authorization.

Sources: RFC 8030 (headers), RFC 8291 (aes128gcm, one record, at most 4,096 bytes with it). Encryption is pywebpush's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import orjson
from pywebpush import WebPusher

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.ports import Prepared
from shared.core.web_push import WebPushSubscription
from shared.providers.push.web_header import collapse_key, web_headers
from shared.wire.channel import DATA

MAX_PLAIN_BYTES: Final = 3993
"""RFC 8291 section 4: what a body of 4,096 bytes has room for, which every push service must take."""


class RefusedError(ValueError):
    """Known to be refused, so not sent (P7)."""


@dataclass(frozen=True, slots=True)
class WebPushRequest:
    """repr hides what is personal."""

    headers: dict[str, str]
    body: bytes = field(repr=False)


def build(message: Prepared, subscription: WebPushSubscription, now: datetime) -> WebPushRequest:
    """The request of one push; RefusedError for a payload that is too large. Its key and salt are new."""
    plain = orjson.dumps(payload(message))
    if len(plain) > MAX_PLAIN_BYTES:
        raise RefusedError(f"payload of {len(plain)} bytes, over {MAX_PLAIN_BYTES:,}: shorten title, body, url or data")
    keys = {"p256dh": subscription.p256dh, "auth": subscription.auth}
    pusher = WebPusher({"endpoint": subscription.endpoint, "keys": keys})
    body: bytes = pusher.encode(plain, "aes128gcm")["body"]
    headers = {"content-type": "application/octet-stream", "content-encoding": "aes128gcm"}
    return WebPushRequest(headers | web_headers(message, now), body)


def payload(message: Prepared) -> Mapping[str, Any]:
    """What the page's service worker gets: to show, and to report with."""
    content = message.content
    found: dict[str, Any] = {
        "title": content["title"],
        "body": content["body"],
        "notificationId": public_id(NOTIFICATION, message.key.notification_id),
        "reference": message.key.reference,
    }
    if message.campaign_id is not None:
        found["campaignId"] = public_id("cmp", message.campaign_id)
    for name in ("url", "image"):
        if content.get(name):
            found[name] = content[name]
    key = collapse_key(message)
    if key:
        found["tag"] = key
    data = {name.removeprefix(DATA): text for name, text in content.items() if name.startswith(DATA)}
    if data:
        found["data"] = data
    return found
