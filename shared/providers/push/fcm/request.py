"""A message as FCM's HTTP v1 body. Pure.

Source: Firebase, "REST Resource: projects.messages". The dictionary is ours because firebase-admin's encoder is private
and takes three times as long; a test holds it equal to what `firebase_admin.messaging` makes of the same message.
"""

from datetime import datetime
from typing import Any, Final

from shared.core.identifier import NOTIFICATION, public_id
from shared.core.ports import Prepared
from shared.wire.channel import MessageClass

MAX_TTL_SEC: Final = 2_419_200
"""Four weeks, FCM's longest."""


def build(message: Prepared, now: datetime) -> dict[str, Any]:
    """The body of `messages:send`. All of `data` is text, as FCM asks; the app reports back with its keys."""
    urgent = message.message_class <= MessageClass.TX
    ttl_sec = min(MAX_TTL_SEC, max(0, int((message.expires_at - now).total_seconds())))
    data = {
        "notificationId": public_id(NOTIFICATION, message.key.notification_id),
        "reference": message.key.reference,
    }
    if message.campaign_id is not None:
        data["campaignId"] = public_id("cmp", message.campaign_id)
    url = message.content.get("url")
    if url:
        data["url"] = url
    body: dict[str, Any] = {
        "token": message.address,
        "notification": {"title": message.content["title"], "body": message.content["body"]},
        "data": data,
    }
    if message.platform == "WEB":
        headers = {"TTL": str(ttl_sec), "Urgency": "high" if urgent else "normal"}
        if message.collapse_key:
            headers["Topic"] = message.collapse_key
        body["webpush"] = {"headers": headers}
        if url and url.startswith("https://"):
            body["webpush"]["fcm_options"] = {"link": url}
    else:
        body["android"] = {"priority": "high" if urgent else "normal", "ttl": f"{ttl_sec}s"}
        if message.collapse_key:
            body["android"]["collapse_key"] = message.collapse_key
    return {"message": body}
