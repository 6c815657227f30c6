"""What FCM refuses in a message. Pure.

Source (Firebase documentation): 'REST Resource: projects.messages' for fields, types, targets, reserved data keys and
limits; 'FCM Error Codes' for INVALID_ARGUMENT.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ops.simulator.providers.fcm.failure import BAD_TOKEN, TOKEN_PREFIXES, Failure, invalid_argument, malformed

MAX_PAYLOAD_BYTES: Final = 4096
MAX_TTL_SEC: Final = 2419200
"""Four weeks."""

_TOKEN: Final = re.compile(r"^[A-Za-z0-9_:.\-]{1,4096}$")
_TOPIC: Final = re.compile(r"^[a-zA-Z0-9\-_.~%]{1,900}$")
_LABEL: Final = re.compile(r"^[a-zA-Z0-9\-_.~%]{1,50}$")
_DURATION: Final = re.compile(r"^(\d+)(?:\.\d{1,9})?s$")

_TEXT: Final = "TYPE_STRING"
_MAP: Final = "map of strings"
_STRUCT: Final = "struct"
_BOOL: Final = "TYPE_BOOL"
Shape = str | Mapping[str, "Shape"]

_NOTIFICATION: Final[Mapping[str, Shape]] = {"title": _TEXT, "body": _TEXT, "image": _TEXT}
_OPTIONS: Final[Mapping[str, Shape]] = {"analytics_label": _TEXT}
MESSAGE: Final[Mapping[str, Shape]] = {
    "name": _TEXT,
    "data": _MAP,
    "notification": _NOTIFICATION,
    "android": {
        "collapse_key": _TEXT,
        "priority": _TEXT,
        "ttl": _TEXT,
        "restricted_package_name": _TEXT,
        "data": _MAP,
        "notification": _STRUCT,
        "fcm_options": _OPTIONS,
        "direct_boot_ok": _BOOL,
        "bandwidth_constrained_ok": _BOOL,
        "restricted_satellite_ok": _BOOL,
    },
    "webpush": {
        "headers": _MAP,
        "data": _MAP,
        "notification": _STRUCT,
        "fcm_options": {"link": _TEXT, "analytics_label": _TEXT},
    },
    "apns": {
        "headers": _MAP,
        "payload": _STRUCT,
        "fcm_options": {"analytics_label": _TEXT, "image": _TEXT},
        "live_activity_token": _TEXT,
    },
    "fcm_options": _OPTIONS,
    "token": _TEXT,
    "topic": _TEXT,
    "condition": _TEXT,
}
REQUEST: Final[Mapping[str, Shape]] = {"message": MESSAGE, "validate_only": _BOOL}
_UNION: Final = ("token", "topic", "condition")
_RESERVED: Final = frozenset({"from", "message_type"})
_RESERVED_PREFIXES: Final = ("google.", "gcm.notification.")


def snake_cased(value: object, shape: Shape = REQUEST) -> object:
    """The request with the proto's own field names: its JSON form takes `fcmOptions` and `fcm_options` alike."""
    if not isinstance(value, dict) or isinstance(shape, str):
        return value
    renamed = {}
    for key, item in value.items():
        name = re.sub(r"[A-Z]", lambda letter: "_" + letter[0].lower(), key)
        name = name if name in shape else key
        renamed[name] = snake_cased(item, shape[name]) if name in shape else item
    return renamed


def refusal(request: object) -> Failure | None:
    """The first reason to refuse the (snake-cased) body of `messages:send`, or None."""
    if not isinstance(request, dict):
        return malformed("Invalid JSON payload received. Expected an object.", "")
    misfit = next(_misfits(request, REQUEST, ""), None)
    if misfit is not None:
        return misfit
    message = request.get("message")
    if not isinstance(message, dict) or not message:
        return invalid_argument("Message is required.", "message")
    return (
        _bad_target(message) or _bad_data(message) or _bad_option(message) or _too_big(message) or _programmed(message)
    )


def _misfits(value: Mapping[str, object], shape: Mapping[str, Shape], path: str) -> Iterator[Failure]:
    for key, item in value.items():
        here = f"{path}.{key}" if path else key
        expected = shape.get(key)
        if expected is None:
            where = f" at '{path}'" if path else ""
            yield malformed(f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.', path)
        elif item is None:
            continue  # proto3 JSON reads null as absent
        elif isinstance(expected, str):
            yield from _misfit(item, expected, here)
        elif isinstance(item, dict):
            yield from _misfits(item, expected, here)
        else:
            yield malformed(f"Invalid value at '{here}' (an object is expected)", here)


def _misfit(item: object, expected: str, here: str) -> Iterator[Failure]:
    if expected == _MAP:
        if not isinstance(item, dict):
            yield malformed(f"Invalid value at '{here}' (a map of strings is expected)", here)
            return
        for index, entry in enumerate(item.values()):
            if not isinstance(entry, str):
                yield malformed(
                    f"Invalid value at '{here}[{index}].value' ({_TEXT}), {entry}", f"{here}[{index}].value"
                )
        return
    fits = {_TEXT: isinstance(item, str), _BOOL: isinstance(item, bool), _STRUCT: isinstance(item, dict)}
    if not fits[expected]:
        yield malformed(f"Invalid value at '{here}' ({expected})", here)


def _bad_target(message: Mapping[str, object]) -> Failure | None:
    given = [name for name in _UNION if message.get(name) is not None]
    if not given:
        return invalid_argument("Recipient of the message is not set.", "message")
    if len(given) > 1:
        return malformed(f"Invalid value at 'message' (oneof), oneof field 'target' is already set: {given}", "message")
    target = str(message[given[0]])
    if given[0] == "token" and not _TOKEN.match(target):
        return BAD_TOKEN
    if given[0] == "topic" and not _TOPIC.match(target):
        return invalid_argument(
            "Invalid topic name: use [a-zA-Z0-9-_.~%]+ without the /topics/ prefix", "message.topic"
        )
    return None


def _bad_data(message: Mapping[str, object]) -> Failure | None:
    for key in _map(message.get("data")):
        if key in _RESERVED or key.startswith(_RESERVED_PREFIXES):
            return invalid_argument(f"Invalid data payload key: {key}", "message.data")
    return None


def _bad_option(message: Mapping[str, object]) -> Failure | None:
    android = _map(message.get("android"))
    ttl = android.get("ttl")
    if ttl is not None:
        match = _DURATION.match(str(ttl))
        if match is None or int(match[1]) > MAX_TTL_SEC:
            return invalid_argument("Invalid ttl: seconds from 0 to 2419200, as in 3.5s", "message.android.ttl")
    priority = str(android.get("priority") or "NORMAL").upper()
    if priority not in {"NORMAL", "HIGH", "ANDROID_MESSAGE_PRIORITY_UNSPECIFIED"}:
        return malformed(f"Invalid value at 'message.android.priority': {priority}", "message.android.priority")
    for part in ("", "android", "apns", "webpush"):
        options = _map((_map(message.get(part)) if part else message).get("fcm_options"))
        label = options.get("analytics_label")
        if label and not _LABEL.match(str(label)):
            place = f"message.{part + '.' if part else ''}fcm_options.analytics_label"
            return invalid_argument("Invalid analytics label: 1 to 50 of [a-zA-Z0-9-_.~%]", place)
    return None


def _map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def payload_bytes(message: Mapping[str, object]) -> int:
    """UTF-8 bytes of what travels to an Android device: keys and values of data and notification.

    What `android` gives replaces the common part of the same name.
    """
    android = _map(message.get("android"))
    data = _map(android.get("data")) or _map(message.get("data"))
    notification = {**_map(message.get("notification")), **_map(android.get("notification"))}
    return sum(
        len(key.encode()) + len(str(value).encode()) for part in (data, notification) for key, value in part.items()
    )


def _too_big(message: Mapping[str, object]) -> Failure | None:
    if payload_bytes(message) > MAX_PAYLOAD_BYTES:
        return invalid_argument("Android message is too big", "message")
    return None


def _programmed(message: Mapping[str, object]) -> Failure | None:
    token = message.get("token")
    if not isinstance(token, str):
        return None
    return next((failure for prefix, failure in TOKEN_PREFIXES.items() if token.startswith(prefix)), None)
