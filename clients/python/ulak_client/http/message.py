"""What is sent. Each has its id from when it is made, so that the same object may be sent again and is told once."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ulak_client.email import Email
from ulak_client.identifier import new_id


def _drawn() -> str:
    return str(new_id())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Who the user is; what is given replaces what Ulak knows."""

    email: str | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    locale: str | None = None
    time_zone: str | None = None

    def body(self) -> dict[str, Any]:
        return _given(email=self.email, phone=self.phone, locale=self.locale, timeZone=self.time_zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One thing to tell one user; times carry their offset. repr shows no parameter.

    event_id: names the fact (`order-98213-SHIPPED`), so that it is told once, whoever tells it; a random one is told
    once by this object. priority may only lower the type's. docs/api.md tells the rest.
    """

    user_id: str | int
    type: str
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)
    event_id: str = field(default_factory=_drawn)
    priority: str | None = None
    event_time: datetime | None = None
    business_key: str | None = None
    channels: Sequence[str] | None = None
    send_at: datetime | None = None
    expires_at: datetime | None = None
    collapse_key: str | None = None
    recipient: Recipient | None = None

    def body(self) -> dict[str, Any]:
        return _given(
            eventId=self.event_id,
            userId=self.user_id,
            type=self.type,
            params=dict(self.params),
            priority=self.priority,
            eventTime=_instant(self.event_time),
            businessKey=self.business_key,
            channels=None if self.channels is None else list(self.channels),
            sendAt=_instant(self.send_at),
            expiresAt=_instant(self.expires_at),
            collapseKey=self.collapse_key,
            recipient=None if self.recipient is None else self.recipient.body(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OneTimePassword:
    """A code that goes out by SMS at once; a newer one for the same phone and purpose supersedes it."""

    phone: str = field(repr=False)
    code: str = field(repr=False)
    expires_in: timedelta
    request_id: str = field(default_factory=_drawn)
    user_id: str | int | None = None
    locale: str | None = None
    purpose: str | None = None

    def body(self) -> dict[str, Any]:
        return _given(
            requestId=self.request_id,
            phone=self.phone,
            code=self.code,
            expiresInSeconds=int(self.expires_in.total_seconds()),
            userId=self.user_id,
            locale=self.locale,
            purpose=self.purpose,
        )


def email_body(email: Email, idempotency_key: str) -> dict[str, Any]:
    """An e-mail as the API takes it."""
    return _given(
        to=list(email.to),
        cc=list(email.cc) or None,
        bcc=list(email.bcc) or None,
        template=email.template,
        parameters=dict(email.parameters),
        attachments=[attachment.body() for attachment in email.attachments] or None,
        type=email.type,
        priority=email.priority,
        locale=email.locale,
        userId=email.user_id,
        expiresInSeconds=None if email.expires_in is None else math.ceil(email.expires_in.total_seconds()),
        model=email.model,
        idempotencyKey=idempotency_key,
    )


def _given(**fields: Any) -> dict[str, Any]:
    """Without what was left out: the API refuses null where it has a default."""
    return {name: value for name, value in fields.items() if value is not None}


def _instant(value: datetime | None) -> str | None:
    if value is not None and value.tzinfo is None:
        raise ValueError("a time needs an offset, e.g. datetime.now(UTC)")
    return None if value is None else value.isoformat()
