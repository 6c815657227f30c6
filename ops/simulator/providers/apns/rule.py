"""What APNs refuses, and why. Pure.

Sources (Apple developer documentation): 'Sending notification requests to APNs' for the headers and limits,
'Handling notification responses from APNs' for statuses and reasons.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson

from ops.simulator.exchange import Request

MAX_PAYLOAD_BYTES: Final = 4096
MAX_VOIP_PAYLOAD_BYTES: Final = 5120
MAX_COLLAPSE_ID_BYTES: Final = 64
PUSH_TYPES: Final = frozenset(
    {
        "alert",
        "background",
        "controls",
        "location",
        "voip",
        "complication",
        "fileprovider",
        "mdm",
        "liveactivity",
        "pushtotalk",
        "widgets",
    }
)
TOPIC_SUFFIXES: Final[Mapping[str, str]] = {
    "location": ".location-query",
    "voip": ".voip",
    "complication": ".complication",
    "fileprovider": ".pushkit.fileprovider",
    "liveactivity": ".push-type.liveactivity",
    "pushtotalk": ".voip-ptt",
}
"""Push types whose topic is the bundle id plus a suffix."""

STATUS_OF_REASON: Final[Mapping[str, int]] = {
    "BadCollapseId": 400,
    "BadDeviceToken": 400,
    "BadExpirationDate": 400,
    "BadMessageId": 400,
    "BadPriority": 400,
    "BadTopic": 400,
    "DeviceTokenNotForTopic": 400,
    "DuplicateHeaders": 400,
    "IdleTimeout": 400,
    "InvalidPushType": 400,
    "MissingDeviceToken": 400,
    "MissingTopic": 400,
    "PayloadEmpty": 400,
    "TopicDisallowed": 400,
    "BadCertificate": 403,
    "BadCertificateEnvironment": 403,
    "ExpiredProviderToken": 403,
    "Forbidden": 403,
    "InvalidProviderToken": 403,
    "MissingProviderToken": 403,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "ExpiredToken": 410,
    "Unregistered": 410,
    "PayloadTooLarge": 413,
    "TooManyProviderTokenUpdates": 429,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "Shutdown": 503,
}
USUAL_REASON: Final[Mapping[int, str]] = {
    400: "BadDeviceToken",
    403: "InvalidProviderToken",
    404: "BadPath",
    405: "MethodNotAllowed",
    410: "Unregistered",
    413: "PayloadTooLarge",
    429: "TooManyRequests",
    500: "InternalServerError",
    503: "ServiceUnavailable",
}
"""The reason that goes with a programmed status that came without a body."""

TOKEN_PREFIXES: Final[Mapping[str, str]] = {
    "deadbeef": "Unregistered",
    "deadc0de": "ExpiredToken",
    "baddc0de": "BadDeviceToken",
    "badcafe0": "DeviceTokenNotForTopic",
    "feed0429": "TooManyRequests",
    "feed0500": "InternalServerError",
    "feed0503": "ServiceUnavailable",
    "feed5503": "Shutdown",
}
"""Device tokens that begin with these eight hex digits always get that answer."""

TIMESTAMPED: Final = frozenset({"Unregistered", "ExpiredToken"})
"""Reasons whose body says since when the token is gone, in milliseconds."""

_PATH: Final = re.compile(r"^/3/device/([^/]*)$")
_TOKEN: Final = re.compile(r"^(?:[0-9a-fA-F]{2}){32,100}$")
"""Tokens are of variable length; 32 bytes so far, up to 100 by Apple's notice to developers."""
_UUID: Final = re.compile(r"^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One of Apple's reasons; the status follows from it."""

    reason: str

    @property
    def status(self) -> int:
        return STATUS_OF_REASON[self.reason]


def device_token(path: str) -> str | None:
    """The token of `/3/device/{token}`, None for any other path; may be empty."""
    match = _PATH.match(path)
    return None if match is None else match[1]


def is_message_id(value: str) -> bool:
    """A UUID in its canonical form of 8-4-4-4-12 digits."""
    return _UUID.match(value) is not None


def refusal(request: Request, topics: frozenset[str]) -> Refusal | None:
    """The first reason to refuse a request with a good provider token, or None.

    topics: those the signing key may send to; empty means any.
    """
    return _bad_target(request) or _bad_header(request, topics) or _bad_payload(request) or _programmed(request)


def _bad_target(request: Request) -> Refusal | None:
    token = device_token(request.path)
    if token is None:
        return Refusal("BadPath")
    if request.method != "POST":
        return Refusal("MethodNotAllowed")
    if not token:
        return Refusal("MissingDeviceToken")
    return None if _TOKEN.match(token) else Refusal("BadDeviceToken")


def _bad_header(request: Request, topics: frozenset[str]) -> Refusal | None:  # noqa: PLR0911 - one return per reason
    repeats = Counter(name for name, _ in request.headers if name.startswith("apns-"))
    if any(count > 1 for count in repeats.values()):
        return Refusal("DuplicateHeaders")
    topic = request.header("apns-topic")
    push_type = request.header("apns-push-type")
    if not topic:
        return Refusal("MissingTopic")
    if push_type is not None and push_type not in PUSH_TYPES:
        return Refusal("InvalidPushType")
    suffix = TOPIC_SUFFIXES.get(push_type or "", "")
    if not topic.endswith(suffix) or (topics and topic.removesuffix(suffix) not in topics):
        return Refusal("TopicDisallowed")
    if not is_message_id(request.header("apns-id") or "00000000-0000-0000-0000-000000000000"):
        return Refusal("BadMessageId")
    if not _is_decimal(request.header("apns-expiration") or "0"):
        return Refusal("BadExpirationDate")
    if (request.header("apns-priority") or "10") not in {"1", "5", "10"}:
        return Refusal("BadPriority")
    if len((request.header("apns-collapse-id") or "").encode()) > MAX_COLLAPSE_ID_BYTES:
        return Refusal("BadCollapseId")
    return None


def _is_decimal(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _bad_payload(request: Request) -> Refusal | None:
    limit = MAX_VOIP_PAYLOAD_BYTES if request.header("apns-push-type") == "voip" else MAX_PAYLOAD_BYTES
    if len(request.body) > limit:
        return Refusal("PayloadTooLarge")
    payload = parsed(request.body)
    return None if isinstance(payload, dict) and payload else Refusal("PayloadEmpty")


def _programmed(request: Request) -> Refusal | None:
    reason = TOKEN_PREFIXES.get((device_token(request.path) or "")[:8].lower())
    return None if reason is None else Refusal(reason)


def parsed(body: bytes) -> object:
    """The payload as JSON, None if it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def problems(request: Request, now: datetime) -> list[str]:
    """What Apple takes but a careful sender would not send, or what no device would ever show."""
    found = []
    push_type = request.header("apns-push-type")
    if push_type is None:
        found.append("apns-push-type is missing: required by watchOS 6 and later, recommended for all")
    if push_type == "background" and (request.header("apns-priority") or "10") != "5":
        found.append("a background push needs apns-priority 5")
    expiration = request.header("apns-expiration") or "0"
    if _is_decimal(expiration) and 0 < int(expiration) < now.timestamp():
        found.append("apns-expiration has passed: tried once, never stored")
    payload = parsed(request.body)
    if not isinstance(payload, dict) or not isinstance(payload.get("aps"), dict):
        found.append("the payload has no aps dictionary")
    return found
