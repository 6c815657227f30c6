"""A notification as the router sees it, and what becomes of it: rows to write, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared.core.catalogue import NotificationType
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.decision.chain import Decision
from shared.decision.facts import Mode
from shared.facts.subject import Recipient
from shared.redis_store.cap import Day
from shared.wire.channel import MessageClass, Promise


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
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
    origin: bytes | None = None
    """What it comes from, where it gets another id each time it is tried (events): 16 bytes."""

    @property
    def member(self) -> bytes:
        """Itself in a user's day, the same whenever it is decided: 16 bytes."""
        return self.id.bytes if self.origin is None else self.origin


class NewDelivery(NamedTuple):
    """A delivery as it is born: PENDING, or settled at once with its reason. send_until: not sent after that."""

    key: DeliveryKey
    status: DeliveryStatus
    reason: Reason | None
    promise: Promise
    address_sealed: bytes | None = None
    platform: str | None = None
    app_id: str | None = None
    last_error: str | None = None
    marketing: bool = False
    send_until: datetime | None = None


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class NewContent:
    """What is said on a channel, sealed. inbox_sealed: the same for the inbox, where that is the channel."""

    channel: str
    sealed: bytes
    locale: str
    template_version: int
    inbox_sealed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Unwritable:
    """Content that cannot be had for this notification, ever: RENDER or UNSEALABLE; detail holds no personal data."""

    reason: Reason
    detail: str


Written = NewContent | Unwritable


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class Draft:
    """A decision and what it would say, before it is known whether the user's day has room.

    content: of every channel that goes. duplicate_of: the notification that has said the same.
    """

    notification: Notification
    type: NotificationType
    decision: Decision
    content: Mapping[str, Written]
    duplicate_of: UUID | None = None


class LogEntry(NamedTuple):
    """One verdict in `delivery_log`; detail is for operators."""

    id: UUID
    channel: str
    target_key: bytes
    result: str
    reason: Reason | None
    detail: str


@dataclass(frozen=True, slots=True)
class Claim:
    """The content a plan sends: the first of its type, user and business key until then (semantics.md section 1)."""

    type: str
    user_id: int
    business_key: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Place:
    """One of `limit` in a user's day, and who holds it."""

    day: Day
    limit: int
    member: bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The places that a plan has. commit_by, monotonic seconds: a transaction that comes later must not use them."""

    places: tuple[Place, ...]
    commit_by: float


@dataclass(frozen=True, slots=True)
class Letter:
    """What a person must look at: a channel that could not be decided or written for its type's or data's sake."""

    channel: str
    reason: Reason
    detail: str


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class Plan:
    """Everything that one decision writes. due_at only with DEFERRED. claim: what it must be the first to say, if
    anything goes. reservation: its places in the user's day; is_duplicate: it does not use them.
    """

    notification: Notification
    becomes: NotificationState
    deliveries: tuple[NewDelivery, ...] = ()
    contents: tuple[NewContent, ...] = ()
    log: tuple[LogEntry, ...] = ()
    letters: tuple[Letter, ...] = ()
    due_at: datetime | None = None
    claim: Claim | None = None
    reservation: Reservation | None = None
    is_duplicate: bool = False


class Owed(NamedTuple):
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


def owed_by(plan: Plan, now: datetime) -> list[Owed]:
    """What a plan that was just saved at `now` owes."""
    n = plan.notification
    shared = (0, n.message_class, now, now, n.user_id, n.traceparent)
    return [Owed(delivery.key, delivery.status, delivery.reason, *shared) for delivery in plan.deliveries]
