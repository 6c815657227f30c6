"""What a channel takes: its fields' shape and size, checked after rendering and before anything is stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from shared.content.option import SENT_OPTIONS, TRANSLITERATE
from shared.content.problem import RenderError
from shared.content.transliterate import transliterated
from shared.wire.channel import ChannelSpec


@dataclass(frozen=True, slots=True)
class FieldRule:
    """one_line folds all white space into single spaces: a header field or a title with a line break in a parameter
    would otherwise let its sender write headers of their own.
    """

    one_line: bool = False
    max_chars: int | None = None
    max_bytes: int | None = None


_RULES: Final[Mapping[str, FieldRule]] = {
    "subject": FieldRule(one_line=True, max_chars=500),
    "title": FieldRule(one_line=True, max_chars=200),
    "url": FieldRule(one_line=True, max_chars=2000),
    "image": FieldRule(one_line=True, max_chars=2000),
    "collapseKey": FieldRule(one_line=True, max_bytes=64),  # apns-collapse-id (P7)
}
_ANY: Final = FieldRule()

MAX_PUSH_BYTES: Final = 3500
"""All fields as JSON. APNs and FCM take 4,096 bytes of payload (P7); the rest is their keys and our own data.
The worker counts the real payload again; this one tells the author's mistake early and on every platform alike."""

MAX_SMS_CHARS: Final = 1600
"""Twilio's limit for one message body (API reference, Message resource)."""

RESERVED_DATA: Final = frozenset({"notificationId", "reference", "campaignId", "url", "image", "aps", "from"})
"""Names of our own, and those that FCM and APNs keep for themselves."""

_URL_SCHEMES_REFUSED: Final = ("javascript:", "data:", "vbscript:", "file:")


def is_headline(field: str) -> bool:
    """Whether it is shown in one line, in a list of messages, where its reader decides whom to trust."""
    return _RULES.get(field, _ANY).one_line


def checked_content(
    channel: ChannelSpec, rendered: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The fields as they are stored and sent: trimmed, empty optional ones left out, and the options that a provider
    is told beside them.

    Raises RenderError with the field's name: one too long, or a required one that came out empty (all text behind an
    `if`).
    """
    content: dict[str, str] = {}
    for name, text in rendered.items():
        rule = _RULES.get(name, _ANY)
        value = " ".join(text.split()) if rule.one_line else text.strip()
        if rule.max_chars is not None and len(value) > rule.max_chars:
            raise RenderError(f"{name}: comes out longer than {rule.max_chars} characters")
        if rule.max_bytes is not None and len(value.encode()) > rule.max_bytes:
            raise RenderError(f"{name}: comes out larger than {rule.max_bytes} bytes")
        if "\x00" in value:
            raise RenderError(f"{name}: holds a NUL character")
        if value:
            content[name] = value
    if options:
        _apply(options, content)
    for name in channel.content_fields:
        if name not in content:
            raise RenderError(f"{name}: comes out empty")
    _check_channel(channel.name, content)
    return content


def _apply(options: Mapping[str, Any], content: dict[str, str]) -> None:
    if options.get(TRANSLITERATE):
        content["text"] = transliterated(content.get("text", ""))
    content |= {name: str(value) for name, value in options.items() if name in SENT_OPTIONS}


def _check_channel(channel: str, content: Mapping[str, str]) -> None:
    if channel == "PUSH" and len(orjson.dumps(content)) > MAX_PUSH_BYTES:
        raise RenderError(f"all fields come out larger than {MAX_PUSH_BYTES} bytes together")
    if channel == "SMS" and len(content.get("text", "")) > MAX_SMS_CHARS:
        raise RenderError(f"text: comes out longer than {MAX_SMS_CHARS} characters")
    if content.get("url", "").lower().startswith(_URL_SCHEMES_REFUSED):
        raise RenderError("url: this scheme is not a link that a notification may open")
    if "image" in content and not content["image"].startswith("https://"):
        raise RenderError("image: must begin with https://, or phones do not load it")
