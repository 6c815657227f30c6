"""The link by which whoever received a marketing message takes their consent back (RFC 8058, case E8). Pure.

The link is the credential: no login, no cookie, nothing to look up to know whom it is about. It names no person: the
subject of a consent is a keyed hash (shared/core/consent.py). It never expires, because a mail is kept for years and
its way out must still work then; and as the lookup key is never rotated, it stays valid.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.core.sealing import KeyRing, keyed_hash
from shared.wire.channel import Category

PARAMETER: Final = "unsubscribeUrl"
"""The template parameter that holds the link where there is one; callers neither give it nor are asked for it."""

RESERVED: Final = f"Ulak fills `{PARAMETER}` in itself, and where nobody can unsubscribe there is none: leave it out"
"""What is said to whoever gives it: a link of somebody else's in its place would unsubscribe nobody."""

EXAMPLE: Final = f"https://unsubscribe.example/u/{'x' * 100}"
"""Stands for the link where nobody is written to: about as long as a real one, so that segments count right."""

_FORMAT: Final = 1
_SUBJECT_BYTES: Final = 32
_MAC_BYTES: Final = 16
"""128 bits: as hard to guess as a key, and the link stays short enough for an SMS page."""
_LONGEST: Final = 400
_MARKETING: Final = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which consent a link takes back: the subject's, on a channel, to marketing. type_name is what was received."""

    subject: bytes
    channel: str
    type_name: str


class InvalidLinkError(ValueError):
    """A text that is no link of ours, or one that was altered."""


def link_token(ring: KeyRing, refusal: Refusal) -> str:
    """The last part of the link: URL-safe, the same for the same refusal."""
    if len(refusal.subject) != _SUBJECT_BYTES:
        raise ValueError(f"a subject has {_SUBJECT_BYTES} bytes")
    channel, name = refusal.channel.encode(), refusal.type_name.encode()
    payload = bytes((_FORMAT, _MARKETING, len(channel))) + channel + refusal.subject + name
    return base64.urlsafe_b64encode(payload + _mac(ring, payload)).rstrip(b"=").decode()


def parse_link_token(ring: KeyRing, token: str) -> Refusal:
    """Inverse of `link_token`; InvalidLinkError for anything that this ring has not signed."""
    if len(token) > _LONGEST or not token.isascii():
        raise InvalidLinkError("not a link of ours")
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidLinkError("not a link of ours") from None
    payload, mac = data[:-_MAC_BYTES], data[-_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(ring, payload)):
        raise InvalidLinkError("not a link of ours, or altered")
    if payload[:2] != bytes((_FORMAT, _MARKETING)):
        raise InvalidLinkError("a link of another release")
    channel_end = 3 + payload[2]
    subject_end = channel_end + _SUBJECT_BYTES
    return Refusal(
        subject=payload[channel_end:subject_end],
        channel=payload[3:channel_end].decode(),
        type_name=payload[subject_end:].decode(),
    )


def link(public_url: str, ring: KeyRing, refusal: Refusal) -> str:
    """The whole link, below the public address of services/me."""
    return f"{public_url.rstrip('/')}/u/{link_token(ring, refusal)}"


def with_example(category: Category, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters as a preview fills them in: marketing gets an example of the link, others have none."""
    return {**params, PARAMETER: EXAMPLE} if category is Category.MARKETING else params


def _mac(ring: KeyRing, payload: bytes) -> bytes:
    return keyed_hash(ring, "unsubscribe", payload.hex())[:_MAC_BYTES]
