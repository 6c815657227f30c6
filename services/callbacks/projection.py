"""What receipts make of a delivery. Pure; the order they come in and how often does not matter (S6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.core.lifecycle import DeliveryStatus, Reason, ReceiptKind, after_receipt
from shared.core.receipt import Receipt
from shared.core.reference import DeliveryKey

_OPEN: Final = frozenset({DeliveryStatus.PENDING, DeliveryStatus.SENDING})


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery row as far as receipts concern it. attempt: attempts recorded as made."""

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None
    attempt: int
    provider: str | None
    updated_at: datetime
    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """One receipt as it came: from whom, when, and the keyed hash that tells it from others."""

    receipt: Receipt
    provider: str
    received_at: datetime
    event_hash: bytes

    @property
    def log_id(self) -> UUID:
        """A UUIDv7 of the moment it came and what it is: the same again when the topic is read again."""
        milliseconds = int(self.received_at.timestamp() * 1000)
        value = (milliseconds << 80) | int.from_bytes(self.event_hash[:10], "big")
        return UUID(int=value & ~(0xF << 76) & ~(0x3 << 62) | (0x7 << 76) | (0x2 << 62))


class Effect(StrEnum):
    """What became of one statement."""

    SETTLED = "settled"
    PARKED = "parked"
    LOGGED = "logged"


def apply(delivery: Delivery, statement: Statement, now: datetime) -> tuple[Delivery, Effect]:
    """The delivery after one statement.

    A negative one about an attempt that is not recorded yet is parked: whoever records the attempt applies it. A
    positive one settles at once; the claim is cleared, and the worker that still holds it finds it gone.
    """
    receipt = statement.receipt
    if receipt.kind is ReceiptKind.UNDELIVERED and _comes_early(delivery, receipt):
        return delivery, Effect.PARKED
    following = after_receipt(
        delivery.status,
        receipt.kind,
        receipt_attempt=receipt.attempt,
        current_attempt=delivery.attempt,
        channel=delivery.key.channel,
    )
    if following is None:
        return delivery, Effect.LOGGED
    settled = replace(
        delivery,
        status=following,
        reason=_reason(delivery.status, following),
        attempt=max(delivery.attempt, receipt.attempt),
        provider=delivery.provider or statement.provider,
        provider_message_id=receipt.provider_message_id,
        updated_at=now,
    )
    return settled, Effect.SETTLED


def apply_all(
    delivery: Delivery, statements: Sequence[Statement], now: datetime
) -> tuple[Delivery, Sequence[tuple[Statement, Effect]]]:
    """`apply` for each, in order."""
    effects: list[tuple[Statement, Effect]] = []
    for statement in statements:
        delivery, effect = apply(delivery, statement, now)
        effects.append((statement, effect))
    return delivery, effects


def _comes_early(delivery: Delivery, receipt: Receipt) -> bool:
    if delivery.status is DeliveryStatus.SENDING:
        return receipt.attempt >= delivery.attempt
    return delivery.status in _OPEN and receipt.attempt > delivery.attempt


def _reason(before: DeliveryStatus, following: DeliveryStatus) -> Reason | None:
    if following is not DeliveryStatus.FAILED:
        return None
    return Reason.BOUNCED if before is DeliveryStatus.DELIVERED else Reason.UNDELIVERED
