"""States of a notification and of a delivery, and which changes are legal (semantics.md section 2).

One table; the SQL updates name the state they saw, and a test walks every query against it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class NotificationState(StrEnum):
    """ACCEPTED and due DEFERRED are decided; DECIDED re-publishes what is owed; CANCELLED starts nothing."""

    ACCEPTED = "ACCEPTED"
    DEFERRED = "DEFERRED"
    DECIDED = "DECIDED"
    CANCELLED = "CANCELLED"


class DeliveryStatus(StrEnum):
    PENDING = "PENDING"
    SENDING = "SENDING"
    SENT = "SENT"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    UNKNOWN = "UNKNOWN"


class Reason(StrEnum):
    """Why a delivery or a channel did not go out, as stored, counted and shown: the whole vocabulary."""

    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    NO_CONSENT = "no_consent"
    PREFERENCE = "preference"
    SUPPRESSED = "suppressed"
    DUPLICATE_CONTENT = "duplicate_content"
    CAPPED = "capped"
    NO_TARGET = "no_target"
    NO_TEMPLATE = "no_template"
    UNKNOWN_TYPE = "unknown_type"
    QUIET_HOURS = "quiet_hours"
    SCHEDULED = "scheduled"
    PAUSED = "paused"
    NOT_ON_ALLOW_LIST = "not_on_allow_list"
    EXHAUSTED = "exhausted"
    INVALID = "invalid"
    PERMANENT = "permanent"
    TARGET_GONE = "target_gone"
    RENDER = "render"
    ATTACHMENT = "attachment"
    CONFIG = "config"
    UNDELIVERED = "undelivered"
    BOUNCED = "bounced"
    AMBIGUOUS = "ambiguous"
    UNSEALABLE = "unsealable"
    CLOSED = "closed"


_S = DeliveryStatus

DELIVERY_TRANSITIONS: Final[Mapping[DeliveryStatus, frozenset[DeliveryStatus]]] = {
    _S.PENDING: frozenset({_S.SENDING, _S.SKIPPED, _S.DELIVERED, _S.FAILED}),
    _S.SENDING: frozenset({_S.SENT, _S.PENDING, _S.SKIPPED, _S.FAILED, _S.UNKNOWN, _S.DELIVERED}),
    _S.SENT: frozenset({_S.DELIVERED, _S.FAILED, _S.PENDING}),
    _S.UNKNOWN: frozenset({_S.DELIVERED, _S.FAILED}),
    _S.DELIVERED: frozenset({_S.FAILED}),
    _S.FAILED: frozenset({_S.PENDING, _S.SKIPPED}),
    _S.SKIPPED: frozenset(),
}
"""From each status, where it may go. PENDING -> FAILED is a config or unsealable failure found before the claim."""

SETTLED: Final = frozenset({_S.SENT, _S.DELIVERED, _S.FAILED, _S.SKIPPED, _S.UNKNOWN})
"""Statuses on which no hint is owed any more."""


_MENDABLE: Final = frozenset({
    Reason.RENDER,
    Reason.ATTACHMENT,
    Reason.CONFIG,
    Reason.NO_TEMPLATE,
    Reason.UNKNOWN_TYPE,
})  # fmt: skip

OWN_FAULTS: Final = _MENDABLE | {Reason.INVALID}
"""Not a provider's doing: what was met is in our own words, names no person, and is told to callers too."""

REPAIRABLE: Final = _MENDABLE | {Reason.EXHAUSTED}
"""FAILED for these, an e-mail may be sent on its way again: a repair can help it. Its content is kept until then."""


def may_become(current: DeliveryStatus, following: DeliveryStatus) -> bool:
    return following in DELIVERY_TRANSITIONS[current]


class ReceiptKind(StrEnum):
    """What a provider's later word says about a delivery."""

    PROGRESS = "progress"
    DELIVERED = "delivered"
    UNDELIVERED = "undelivered"


def after_receipt(
    current: DeliveryStatus, kind: ReceiptKind, *, receipt_attempt: int, current_attempt: int, channel: str
) -> DeliveryStatus | None:
    """The status a receipt leads to, or None when it only is logged (S6, E9: order and multiplicity do not matter).

    A positive receipt counts whatever its attempt; a negative one only for the current attempt; DELIVERED regresses
    for e-mail bounces alone.
    """
    match kind:
        case ReceiptKind.DELIVERED if current in {_S.PENDING, _S.SENDING, _S.SENT, _S.UNKNOWN}:
            return _S.DELIVERED
        case ReceiptKind.UNDELIVERED if receipt_attempt == current_attempt and (
            current in {_S.SENT, _S.UNKNOWN} or (current is _S.DELIVERED and channel == "EMAIL")
        ):
            return _S.FAILED
        case _:
            return None
