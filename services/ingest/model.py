"""Bodies of the internal API, as callers write and read them (docs/openapi/ingest.json is generated from these).

Unknown fields are refused. Types are strict: no "7" for 7, no 1 for true; times are RFC 3339 with an offset.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

MAX_BATCH_ITEMS: Final = 1000
_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_PRINTABLE: Final = r"^[^\u0000-\u001f\u007f]+$"
"""No control characters: ids end up in headers of providers and in log lines."""
_COLLAPSE_KEY_BYTES: Final = 64
"""APNs refuses a longer apns-collapse-id (case P7)."""
_LONG: Final = 2**63


def _instant(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not _RFC3339.fullmatch(value):
        raise ValueError("give an RFC 3339 time with its offset, like 2026-11-11T10:00:00+03:00")
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("this time does not exist: give one like 2026-11-11T10:00:00+03:00") from error


def _decimal(value: str | int) -> str:
    return value if isinstance(value, str) else str(value)


def _short_in_bytes(value: str) -> str:
    if len(value.encode()) > _COLLAPSE_KEY_BYTES:
        raise ValueError(f"at most {_COLLAPSE_KEY_BYTES} bytes in UTF-8, because APNs takes no more")
    return value


Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_PRINTABLE)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=_PRINTABLE)]
UserId = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=_PRINTABLE)]
    | Annotated[int, Field(ge=-_LONG, lt=_LONG)],
    AfterValidator(_decimal),
]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Locale = Annotated[str, StringConstraints(max_length=16, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]
CollapseKey = Annotated[Name, AfterValidator(_short_in_bytes)]


class _Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
    )


class InlineRecipient(_Body):
    """Who the user is, given with the request; what is given replaces what is known."""

    email: str | None = Field(default=None, max_length=320, examples=["ayse@example.com"])
    phone: str | None = Field(default=None, max_length=40, examples=["+905321234567"])
    locale: Locale | None = Field(default=None, examples=["tr-TR"])
    time_zone: str | None = Field(default=None, max_length=64, examples=["Europe/Istanbul"])


class NotificationRequest(_Body):
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


class BatchRequest(_Body):
    """Documents the batch; its items are validated one by one, so that one bad item does not refuse the others."""

    items: list[NotificationRequest] = Field(max_length=MAX_BATCH_ITEMS)


class OtpRequest(_Body):
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


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class ClampedPriority(_Answer):
    """The caller asked for more than the type's class allows; `applied` is what it got."""

    requested: str
    applied: Literal["critical", "tx", "bulk", "low"]


class AcceptedAnswer(_Answer):
    notification_id: str = Field(examples=["ntf_01kbapv8a4fevs0dqf3qx5kpkx"])
    priority: ClampedPriority | None = Field(default=None, description="Present only when the priority was clamped.")


class FieldErrorAnswer(_Answer):
    path: str
    detail: str | None = None


class ProblemAnswer(_Answer):
    """RFC 9457; `code` is stable, `detail` says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldErrorAnswer] | None = None


class BatchItemAnswer(_Answer):
    """What the item alone would have been answered: its status, and either the id or the problem."""

    status: int
    notification_id: str | None = None
    priority: ClampedPriority | None = None
    problem: ProblemAnswer | None = None


class BatchAnswer(_Answer):
    results: list[BatchItemAnswer] = Field(description="One per item, in the order of the request.")


class DeliveryAnswer(_Answer):
    channel: str
    target: str | None = Field(default=None, description="Masked.")
    status: str
    reason: str | None = None
    provider: str | None = None
    attempts: int
    updated_at: datetime


class NotificationAnswer(_Answer):
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


class CancelAnswer(_Answer):
    """Counts of deliveries; a notification stopped before it was decided counts as one cancelled."""

    cancelled: int
    in_flight: int
    already_out: int


class ExplainedStep(_Answer):
    at: datetime
    text: str
    channel: str | None = None
    result: str
    reason: str | None = None


class ExplainAnswer(_Answer):
    notification_id: str
    state: str
    summary: str
    steps: list[ExplainedStep]


class OtpAnswer(_Answer):
    """The state of a code, never the code."""

    notification_id: str
    request_id: str
    status: str
    reason: str | None = None
    attempts: int
    created_at: datetime
    expires_at: datetime
