"""A notification as the router sees it, and what becomes of it: rows to write, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.decision.facts import Mode
from shared.wire.channel import MessageClass, Promise


@dataclass(frozen=True, slots=True)
class Recipient:
    """What is known of the user: addresses unopened, by channel; device tokens are loaded with the facts."""

    addresses: Mapping[str, tuple[bytes, bytes]]
    """Channel -> (target key, sealed address)."""
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """One row, joined with its recipient. params are the opened ones where they are at hand (events), else None."""

    id: UUID
    application_id: int
    event_id: str
    user_id: int | None
    type: str
    message_class: MessageClass
    mode: Mode
    state: NotificationState
    recipient: Recipient
    expires_at: datetime
    created_at: datetime
    params_sealed: bytes | None = None
    params: Mapping[str, Any] | None = field(default=None, repr=False)
    channels: tuple[str, ...] | None = None
    locale: str | None = None
    business_key: str | None = None
    event_time: datetime | None = None
    send_at: datetime | None = None
    api_key_id: UUID | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery as it is born: PENDING, or settled at once with its reason."""

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None
    promise: Promise
    address_sealed: bytes | None = None
    platform: str | None = None
    app_id: str | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class NewContent:
    channel: str
    sealed: bytes
    locale: str
    template_version: int


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One verdict in `delivery_log`; detail is for operators."""

    id: UUID
    channel: str
    target_key: bytes
    result: str
    reason: Reason | None
    detail: str


@dataclass(frozen=True, slots=True)
class Letter:
    """What a person must look at: a channel that could not be decided or written for its type's or data's sake."""

    channel: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that one decision writes. due_at only with DEFERRED."""

    notification: Notification
    becomes: NotificationState
    deliveries: tuple[NewDelivery, ...] = ()
    contents: tuple[NewContent, ...] = ()
    log: tuple[LogEntry, ...] = ()
    letters: tuple[Letter, ...] = ()
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Owed:
    """A delivery about which something must be published: a hint while PENDING, else its event."""

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None
    attempt: int
    message_class: MessageClass
    next_attempt_at: datetime
    updated_at: datetime
    user_id: int | None
    traceparent: str | None


LETTERED = frozenset({Reason.NO_TEMPLATE, Reason.UNKNOWN_TYPE, Reason.RENDER, Reason.UNSEALABLE, Reason.CONFIG})
"""Reasons that are somebody's mistake to repair, not a rule that did its work."""


def owed_by(plan: Plan, now: datetime) -> tuple[Owed, ...]:
    """What a plan that was just saved at `now` owes."""
    notification = plan.notification
    return tuple(
        Owed(
            key=delivery.key,
            status=delivery.status,
            reason=delivery.reason,
            attempt=0,
            message_class=notification.message_class,
            next_attempt_at=now,
            updated_at=now,
            user_id=notification.user_id,
            traceparent=notification.traceparent,
        )
        for delivery in plan.deliveries
    )
