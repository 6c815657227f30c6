"""A notification type as files and the administration API define it: its rules, and how it is told. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from shared.core.catalogue import NotificationType
from shared.core.unsubscribe import PARAMETER, RESERVED
from shared.wire.channel import Category, Channels, MessageClass

MAX_TTL: Final = timedelta(days=30)
MAX_CONTENT_WINDOW: Final = timedelta(days=30)
MAX_SPREAD: Final = timedelta(hours=2)
"""Longer, and the morning would be gone before the last of the night's messages were told."""
MAX_SMS_SEGMENTS: Final = 10
"""Twilio joins at most 10 (API reference, Message resource: 1,600 characters)."""


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """One thing to correct. `field` is its name in files and in the API, with dots."""

    field: str
    message: str


def type_problems(entry: NotificationType, channels: Channels) -> Iterator[TypeProblem]:
    """Everything that is wrong with a type by itself."""
    yield from _unknown("channels", entry.default_channels, channels)
    yield from _unknown("promises", tuple(entry.promises), channels)
    yield from _unknown("fallback", entry.fallback_channels, channels)
    if entry.message_class < entry.category.message_class:
        yield TypeProblem("class", f"{entry.category} may be lowered, not raised")
    if entry.category is Category.SECURITY and entry.quiet_hours is not None:
        yield TypeProblem("quietHours", "SECURITY is told at once: leave them out")
    if entry.quiet_hours is not None and entry.quiet_hours.spread > MAX_SPREAD:
        yield TypeProblem("quietHours.spread", f"at most {MAX_SPREAD}")
    if not timedelta(0) < entry.ttl <= MAX_TTL:
        yield TypeProblem("ttl", f"more than 0 and at most {MAX_TTL.days} days")
    if not timedelta(0) <= entry.content_window <= MAX_CONTENT_WINDOW:
        yield TypeProblem("contentWindow", f"at most {MAX_CONTENT_WINDOW.days} days; 0 is none")
    if PARAMETER in (entry.sample or {}):
        yield TypeProblem(f"sample.{PARAMETER}", RESERVED)
    if PARAMETER in (entry.parameter_schema or {}).get("properties", {}):
        yield TypeProblem(f"parameters.properties.{PARAMETER}", RESERVED)
    if entry.max_sms_segments is not None and not 1 <= entry.max_sms_segments <= MAX_SMS_SEGMENTS:
        yield TypeProblem("sms.maxSegments", f"1 to {MAX_SMS_SEGMENTS}")


def type_body(entry: NotificationType, retention_days: int) -> dict[str, Any]:
    """The whole definition in JSON's terms, as the API tells it and as differences are shown."""
    quiet = entry.quiet_hours
    return {
        "type": entry.name,
        "category": entry.category.value,
        "class": entry.message_class.label,
        "channels": list(entry.default_channels),
        "ttlSeconds": _seconds(entry.ttl),
        "promises": {channel: promise.value for channel, promise in sorted(entry.promises.items())},
        "sender": entry.sender_profile,
        "retentionDays": retention_days,
        "quietHours": None
        if quiet is None
        else {
            "start": quiet.start.isoformat("minutes"),
            "end": quiet.end.isoformat("minutes"),
            "spreadSeconds": _seconds(quiet.spread),
        },
        "contentWindowSeconds": _seconds(entry.content_window),
        "fallback": list(entry.fallback_channels),
        "sms": {
            "maxSegments": entry.max_sms_segments,
            "overflow": "refuse" if entry.refuse_sms_overflow else "warn",
        },
        "parameters": entry.parameter_schema,
        "sample": dict(entry.sample),
    }


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())


def message_class(category: Category, label: str | None) -> MessageClass:
    """The class that a definition names, or its category's; ValueError for a label that is none."""
    return category.message_class if label is None else MessageClass.from_label(label)


def _unknown(field: str, names: Sequence[str], channels: Channels) -> Iterator[TypeProblem]:
    for name in names:
        if name not in channels:
            yield TypeProblem(field, f"unknown channel {name!r}: use {', '.join(channels.names)}")
