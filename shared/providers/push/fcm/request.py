"""A message as FCM's HTTP v1 body. Pure.

Source: Firebase, "REST Resource: projects.messages". The dictionary is ours because firebase-admin's encoder is private
and takes three times as long; a test holds it equal to what `firebase_admin.messaging` makes of the same message.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.ports import Prepared
from shared.providers.push.web_header import collapse_key, is_urgent, ttl_sec, web_headers
from shared.wire.channel import DATA

MAX_PAYLOAD_BYTES: Final = 4096
"""Of notification and data together (Firebase, "About FCM messages")."""


def build(message: Prepared, now: datetime) -> dict[str, Any]:
    """The body of `messages:send`. All of `data` is text, as FCM asks; the app reports back with its keys."""
    content = message.content
    notification = {"title": content["title"], "body": content["body"]}
    if "image" in content:
        notification["image"] = content["image"]
    body: dict[str, Any] = {"token": message.address, "notification": notification, "data": _data(message)}
    if message.platform == "WEB":
        body["webpush"] = _webpush(message, now)
    else:
        body["android"] = _android(message, now)
    return {"message": body}


def _data(message: Prepared) -> dict[str, str]:
    data = {
        "notificationId": public_id(NOTIFICATION, message.key.notification_id),
        "reference": message.key.reference,
    }
    if message.campaign_id is not None:
        data["campaignId"] = public_id("cmp", message.campaign_id)
    content = message.content
    if content.get("url"):
        data["url"] = content["url"]
    if len(content) > 2:
        data |= {name.removeprefix(DATA): text for name, text in content.items() if name.startswith(DATA)}
    return data


def _webpush(message: Prepared, now: datetime) -> dict[str, Any]:
    headers = web_headers(message, now)
    url = message.content.get("url", "")
    return {"headers": headers, "fcm_options": {"link": url}} if url.startswith("https://") else {"headers": headers}


def _android(message: Prepared, now: datetime) -> dict[str, Any]:
    android: dict[str, Any] = {
        "priority": "high" if is_urgent(message) else "normal",
        "ttl": f"{ttl_sec(message, now)}s",
    }
    key = collapse_key(message)
    if key:
        android["collapse_key"] = key
    shown = _android_notification(message.content)
    if shown:
        android["notification"] = shown
    return android


def is_too_large(body: Mapping[str, Any]) -> bool:
    """Whether FCM would refuse what `build` made for its size (P7); known before sending, so nothing is spent on it."""
    message = body["message"]
    return len(orjson.dumps(message["notification"])) + len(orjson.dumps(message["data"])) > MAX_PAYLOAD_BYTES


def _android_notification(content: Mapping[str, str]) -> dict[str, Any]:
    """Sound and badge as Android knows them; `none` is a channel's affair there, so nothing is said."""
    shown: dict[str, Any] = {}
    sound = content.get("sound")
    if sound is not None and sound != "none":
        shown["sound"] = sound
    if "badge" in content:
        shown["notification_count"] = int(content["badge"])
    return shown
