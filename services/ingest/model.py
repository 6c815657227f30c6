"""Bodies of the internal API, as callers write and read them (docs/openapi/ingest.json is generated from these)."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from shared.core.control import PauseKind
from shared.web.model import Answer, Body, Instant, Key, Locale, Name, ProblemAnswer, UserId

MAX_BATCH_ITEMS: Final = 1000
_COLLAPSE_KEY_BYTES: Final = 64
"""APNs refuses a longer apns-collapse-id (case P7)."""


def _short_in_bytes(value: str) -> str:
    if len(value.encode()) > _COLLAPSE_KEY_BYTES:
        raise ValueError(f"at most {_COLLAPSE_KEY_BYTES} bytes in UTF-8, because APNs takes no more")
    return value


CollapseKey = Annotated[Name, AfterValidator(_short_in_bytes)]


class InlineRecipient(Body):
    """Who the user is, given with the request; what is given replaces what is known."""

    email: str | None = Field(default=None, max_length=320, examples=["ayse@example.com"])
    phone: str | None = Field(default=None, max_length=40, examples=["+905321234567"])
    locale: Locale | None = Field(default=None, examples=["tr-TR"])
    time_zone: str | None = Field(default=None, max_length=64, examples=["Europe/Istanbul"])


class NotificationRequest(Body):
    """One thing to tell one user. The same eventId and type again is the same notification."""

    event_id: Key = Field(examples=["order-98213-SHIPPED"])
    user_id: UserId = Field(examples=["7"])
    type: Name = Field(examples=["ORDER_SHIPPED"])
    params: dict[str, Any] = Field(examples=[{"orderNo": "98213", "carrier": "Kargo A"}])
    priority: str | None = Field(
        default=None,
        max_length=16,
        description="critical, tx, bulk, low, or SECURITY, TRANSACTIONAL, MARKETING. May lower below the type's class; "
        "raising is clamped and reported in the answer.",
    )
    event_time: Instant | None = Field(default=None, description="When it happened; the time to live counts from it.")
    business_key: Key | None = None
    channels: list[Name] | None = Field(default=None, min_length=1, max_length=16)
    send_at: Instant | None = Field(default=None, description="Not before this time; at most 30 days ahead.")
    expires_at: Instant | None = Field(
        default=None, description="Not after this time; the type's time to live caps it."
    )
    collapse_key: CollapseKey | None = None
    recipient: InlineRecipient | None = None


class BatchRequest(Body):
    """Documents the batch; its items are validated one by one, so that one bad item does not refuse the others."""

    items: list[NotificationRequest] = Field(max_length=MAX_BATCH_ITEMS)


class OtpRequest(Body):
    """A one-time password that goes out by SMS at once, on a path of its own."""

    request_id: Key
    phone: str = Field(min_length=1, max_length=40, examples=["+905321234567"])
    code: str = Field(pattern=r"^[0-9A-Za-z]{4,10}$", examples=["482913"])
    expires_in_seconds: int = Field(ge=30, le=600, examples=[180])
    user_id: UserId | None = None
    locale: Locale | None = None
    purpose: Annotated[str, StringConstraints(max_length=32, pattern=r"^[A-Za-z0-9_.-]+$")] = Field(
        default="login", description="A newer code for the same phone and purpose supersedes one still waiting."
    )


class ClampedPriority(Answer):
    """The caller asked for more than the type's class allows; `applied` is what it got."""

    requested: str
    applied: Literal["critical", "tx", "bulk", "low"]


class AcceptedAnswer(Answer):
    notification_id: str = Field(examples=["ntf_01kbapv8a4fevs0dqf3qx5kpkx"])
    priority: ClampedPriority | None = Field(default=None, description="Present only when the priority was clamped.")


class BatchItemAnswer(Answer):
    """What the item alone would have been answered: its status, and either the id or the problem."""

    status: int
    notification_id: str | None = None
    priority: ClampedPriority | None = None
    problem: ProblemAnswer | None = None


class BatchAnswer(Answer):
    results: list[BatchItemAnswer] = Field(description="One per item, in the order of the request.")


class PauseAnswer(Answer):
    """What an operator has stopped, and that holds a delivery now."""

    kind: PauseKind
    name: str
    since: datetime
    by: str
    reason: str


class DeliveryAnswer(Answer):
    channel: str
    target: str | None = Field(default=None, description="Masked.")
    status: str
    reason: str | None = None
    detail: str | None = Field(
        default=None, description="What was met, where it is not a provider's doing: a template, a file, a setting."
    )
    provider: str | None = None
    attempts: int
    pause: PauseAnswer | None = None
    updated_at: datetime


class NotificationAnswer(Answer):
    notification_id: str
    event_id: str
    user_id: str | None
    type: str
    state: str
    created_at: datetime
    send_at: datetime | None = None
    expires_at: datetime
    cancelled_at: datetime | None = None
    deliveries: list[DeliveryAnswer]


class CancelAnswer(Answer):
    """Counts of deliveries; a notification stopped before it was decided counts as one cancelled."""

    cancelled: int
    in_flight: int
    already_out: int


class ExplainedStep(Answer):
    at: datetime
    text: str
    channel: str | None = None
    result: str
    reason: str | None = None


class ExplainAnswer(Answer):
    notification_id: str
    state: str
    summary: str
    steps: list[ExplainedStep]


class OtpAnswer(Answer):
    """The state of a code, never the code."""

    notification_id: str
    request_id: str
    status: str
    reason: str | None = None
    attempts: int
    created_at: datetime
    expires_at: datetime
