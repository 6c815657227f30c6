"""The messages between Ulak's own services: ids only, never an address, a code, params or content.

Every message has a version `v` in its body and in the header `ulak-schema`, and its type in `ulak-type`.
Reading rules (semantics.md section 1, upgrade): an unknown type or a broken body is poison (`MalformedMessageError`);
a newer version is `NewerSchemaError`: held and alarmed by its consumer, never dead-lettered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Self, TypeVar
from uuid import UUID

import orjson

from shared.wire.channel import MessageClass

HEADER_TYPE: Final = "ulak-type"
HEADER_SCHEMA: Final = "ulak-schema"
HEADER_TRACEPARENT: Final = "traceparent"


class WireError(ValueError):
    """Base of what can be wrong with a message that was read.

    WireError
    +-- MalformedMessageError   poison: dead-letter it
    +-- NewerSchemaError        written by a newer release: hold it
    """


class MalformedMessageError(WireError):
    """The message can never be read: null value, not JSON, a field missing or of the wrong type."""


class NewerSchemaError(WireError):
    """The message's version is above what this release reads."""


@dataclass(frozen=True, slots=True)
class RequestHint:
    """Asks for a decision: ingest and relay to the router, on `notification-requests-<class>`."""

    TYPE: ClassVar[str] = "notification-request"
    VERSION: ClassVar[int] = 1

    notification_id: UUID

    def body(self) -> dict[str, Any]:
        return {"v": self.VERSION, "notificationId": str(self.notification_id)}

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        return cls(notification_id=UUID(body["notificationId"]))


@dataclass(slots=True, unsafe_hash=True)  # not frozen, though nobody changes it: that costs a microsecond
class DeliveryHint:
    """Asks for work on one delivery: router, worker or relay to a lane or one of its retry tiers.

    target_key is the delivery row's keyed hash (bytes, hex on the wire); attempt counts the attempts already made and
    must equal the row's, or the hint is stale; not_before is when the row may be claimed at the earliest.
    """

    TYPE: ClassVar[str] = "delivery"
    VERSION: ClassVar[int] = 1

    notification_id: UUID
    channel: str
    target_key: bytes
    attempt: int
    message_class: MessageClass
    not_before: datetime | None = None
    campaign_id: UUID | None = None
    chunk: int | None = None

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "v": self.VERSION,
            "notificationId": str(self.notification_id),
            "channel": self.channel,
            "targetKey": self.target_key.hex(),
            "attempt": self.attempt,
            "class": self.message_class.label,
        }
        if self.not_before is not None:
            body["notBefore"] = self.not_before.isoformat()
        if self.campaign_id is not None:
            body["campaignId"] = str(self.campaign_id)
        if self.chunk is not None:
            body["chunk"] = self.chunk
        return body

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        not_before = body.get("notBefore")
        campaign = body.get("campaignId")
        return cls(
            notification_id=UUID(body["notificationId"]),
            channel=_text(body, "channel"),
            target_key=bytes.fromhex(body["targetKey"]),
            attempt=_count(body, "attempt"),
            message_class=MessageClass.from_label(body["class"]),
            not_before=None if not_before is None else _aware(not_before),
            campaign_id=None if campaign is None else UUID(campaign),
            chunk=None if body.get("chunk") is None else _count(body, "chunk"),
        )


@dataclass(frozen=True, slots=True)
class ReceiptMessage:
    """A provider's verified callback, on `delivery-receipts`.

    sealed opens with purpose `receipt-v1` and `receipt_id`;
    provider is the registry's name of the provider whose `receipts.py` reads the opened body.
    """

    TYPE: ClassVar[str] = "receipt"
    VERSION: ClassVar[int] = 1

    receipt_id: UUID
    provider: str
    received_at: datetime
    sealed: bytes

    def body(self) -> dict[str, Any]:
        return {
            "v": self.VERSION,
            "receiptId": str(self.receipt_id),
            "provider": self.provider,
            "receivedAt": self.received_at.isoformat(),
            "sealed": self.sealed.hex(),
        }

    @classmethod
    def read(cls, body: dict[str, Any]) -> Self:
        return cls(
            receipt_id=UUID(body["receiptId"]),
            provider=_text(body, "provider"),
            received_at=_aware(body["receivedAt"]),
            sealed=bytes.fromhex(body["sealed"]),
        )


M = TypeVar("M", RequestHint, DeliveryHint, ReceiptMessage)
Message = RequestHint | DeliveryHint | ReceiptMessage


_HEADERS: Final = {
    kind: ((HEADER_TYPE, kind.TYPE.encode()), (HEADER_SCHEMA, str(kind.VERSION).encode()))
    for kind in (RequestHint, DeliveryHint, ReceiptMessage)
}


def encode(message: Message) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Value and headers of one message, ready for a producer; the caller adds `traceparent`."""
    value = orjson.dumps(message.body())
    return value, list(_HEADERS[type(message)])


def decode(kind: type[M], value: bytes | None, headers: Mapping[str, bytes] | None = None) -> M:
    """Read one message of the kind its topic carries.

    Raises MalformedMessageError (poison) or NewerSchemaError (hold). Unknown fields are ignored: a newer release may
    add some within a version. Held is only what our next release would write: its type and version in the headers as
    well, and one version ahead (N and N+1 run side by side). Anything else with a high `v` is poison, or one bogus
    message would stop a partition until somebody notices.
    """
    if value is None:
        raise MalformedMessageError("the value is null; Ulak's topics are not compacted and know no tombstones")
    try:
        body = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise MalformedMessageError(f"the value is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise MalformedMessageError("the value is not a JSON object")
    version = body.get("v")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MalformedMessageError(f"the schema version `v` is {version!r}, not a positive integer")
    if version > kind.VERSION:
        found = headers or {}
        ours = found.get(HEADER_TYPE) == kind.TYPE.encode() and found.get(HEADER_SCHEMA) == str(version).encode()
        text = f"{kind.TYPE} message of version {version}; this release reads up to {kind.VERSION}"
        raise NewerSchemaError(text) if ours and version == kind.VERSION + 1 else MalformedMessageError(text)
    try:
        return kind.read(body)
    except WireError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MalformedMessageError(f"{kind.TYPE} message with a missing or wrong field: {error!r}") from error


def _text(body: dict[str, Any], name: str) -> str:
    value = body[name]
    if not isinstance(value, str) or not value:
        raise MalformedMessageError(f"{name} is not a text")
    return value


def _count(body: dict[str, Any], name: str) -> int:
    value = body[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MalformedMessageError(f"{name} is not a count")
    return value


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise MalformedMessageError(f"time {text!r} has no offset")
    return moment.astimezone(UTC)
