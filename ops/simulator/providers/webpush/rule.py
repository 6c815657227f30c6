"""What a push service refuses. Pure.

Sources: RFC 8030 (5.2 TTL, 5.4 Topic, 7.2 size, 7.3 expired subscriptions, 8.4 rate), RFC 8188 (aes128gcm), RFC 8292
(VAPID: 2 claims, 3 header, 4.2 refusals); Mozilla, 'autopush HTTP endpoints for notifications' (bodies of errors).
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

from ops.simulator.exchange import Reply, Request, json_reply

PATH_PREFIX: Final = "/wpush/v2/"
MAX_BODY_BYTES: Final = 4096
MAX_LIFE_SEC: Final = 24 * 3600
RETRY_AFTER_SEC: Final = 7

_VAPID: Final = re.compile(r"vapid\s+t=([^,\s]+)\s*,\s*k=([^,\s]+)", re.IGNORECASE)
_TOPIC: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URGENCY: Final = frozenset({"very-low", "low", "normal", "high"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Mozilla's form: `errno` names the reason."""

    status: int
    errno: int
    error: str
    message: str

    def reply(self) -> Reply:
        value = {"code": self.status, "errno": self.errno, "error": self.error, "message": self.message}
        headers = (("retry-after", str(RETRY_AFTER_SEC)),) if self.status == 429 else ()
        return json_reply(self.status, value, *headers)


UNAUTHORIZED: Final = Refusal(401, 109, "Unauthorized", "Request did not validate")
FORBIDDEN: Final = Refusal(403, 109, "Forbidden", "The VAPID key is not the subscription's")
NOT_FOUND: Final = Refusal(404, 102, "Not Found", "Invalid URL endpoint")
GONE: Final = Refusal(410, 103, "Gone", "URL endpoint has expired")
TOO_LARGE: Final = Refusal(413, 104, "Payload Too Large", "Data payload too large")
TOO_MANY: Final = Refusal(429, 202, "Too Many Requests", "Slow down")
UNAVAILABLE: Final = Refusal(503, 202, "Service Unavailable", "Use exponential back-off for retries")
INTERNAL: Final = Refusal(500, 999, "Internal Server Error", "Unknown error")

USUAL: Final[Mapping[int, Refusal]] = {
    refusal.status: refusal
    for refusal in (UNAUTHORIZED, FORBIDDEN, NOT_FOUND, GONE, TOO_LARGE, TOO_MANY, UNAVAILABLE, INTERNAL)
}

MAGIC: Final[Mapping[str, Refusal]] = {
    "mismatch-": FORBIDDEN,
    "unknown-": NOT_FOUND,
    "gone-": GONE,
    "large-": TOO_LARGE,
    "limited-": TOO_MANY,
    "busy-": UNAVAILABLE,
}
"""Subscriptions that always get the same answer, by the beginning of their token."""


def usual(status: int) -> Refusal:
    return USUAL.get(status) or Refusal(status, 999, "Error", f"Programmed status {status}")


def token_of(path: str) -> str:
    """The subscription that an endpoint names."""
    return path.removeprefix(PATH_PREFIX)


def refusal(request: Request, origin: str, now: datetime) -> Refusal | None:
    """The first reason to refuse a message, or None. origin: the push service's own, as `aud` must name it."""
    token = token_of(request.path)
    if request.method != "POST" or not token or "/" in token:
        return NOT_FOUND
    return (
        _bad_header(request)
        or _bad_vapid(request.header("authorization"), origin, now)
        or (TOO_LARGE if len(request.body) > MAX_BODY_BYTES else None)
        or next((refused for prefix, refused in MAGIC.items() if token.startswith(prefix)), None)
    )


def _bad_header(request: Request) -> Refusal | None:
    ttl = request.header("ttl")
    if ttl is None or not ttl.isdigit():
        return _bad(111, "TTL header is missing or no number of seconds")
    if request.header("urgency") not in {None, *_URGENCY}:
        return _bad(113, "Urgency header is none of its values")
    topic = request.header("topic")
    if topic is not None and not _TOPIC.fullmatch(topic):
        return _bad(113, "Topic header is longer than 32 characters or has others than base64url's")
    if request.body and request.header("content-encoding") != "aes128gcm":
        return _bad(110, "Content-Encoding is not aes128gcm")
    return None


def _bad(errno: int, message: str) -> Refusal:
    return Refusal(400, errno, "Bad Request", message)


def _bad_vapid(authorization: str | None, origin: str, now: datetime) -> Refusal | None:
    parts = _VAPID.fullmatch(authorization or "")
    if parts is None:
        return UNAUTHORIZED
    try:
        point = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
        key = EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)
        claims = jwt.decode(
            parts[1],
            key,
            algorithms=["ES256"],
            audience=origin,
            options={"require": ["aud", "exp", "sub"], "verify_exp": False},
        )
    except (binascii.Error, ValueError, jwt.PyJWTError):
        return UNAUTHORIZED
    life_sec = claims["exp"] - now.timestamp()
    return None if 0 < life_sec <= MAX_LIFE_SEC else UNAUTHORIZED
