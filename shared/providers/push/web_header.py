"""The headers that tell a push service a message's life, urgency and topic (RFC 8030 sections 5.2 to 5.4). Pure."""

import base64
import hashlib
import re
from datetime import datetime
from typing import Final

from shared.core.ports import Prepared
from shared.wire.channel import MessageClass

MAX_TTL_SEC: Final = 2_419_200
"""Four weeks, FCM's longest; other push services keep what they like and say so in their reply."""

_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
"""RFC 8030 section 5.4."""


def web_headers(message: Prepared, now: datetime) -> dict[str, str]:
    """TTL, which must always be there (P11), Urgency, and Topic where a later message is to replace this one."""
    headers = {"TTL": str(ttl_sec(message, now)), "Urgency": "high" if is_urgent(message) else "normal"}
    key = collapse_key(message)
    if key:
        headers["Topic"] = _topic(key)
    return headers


def is_urgent(message: Prepared) -> bool:
    return message.message_class <= MessageClass.TX


def ttl_sec(message: Prepared, now: datetime) -> int:
    """What is left of the message's life, or less where its template says so."""
    left_sec = min(MAX_TTL_SEC, max(0, int((message.expires_at - now).total_seconds())))
    ttl = message.content.get("ttl")
    return left_sec if ttl is None else min(left_sec, int(ttl))


def collapse_key(message: Prepared) -> str | None:
    return message.collapse_key or message.content.get("collapseKey")


def _topic(key: str) -> str:
    """The key as a push service takes it: itself, or a name made of it where it is too long or has other letters."""
    if _TOPIC.fullmatch(key):
        return key
    return base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest()[:24]).decode()
