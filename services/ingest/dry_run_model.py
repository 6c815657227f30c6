"""What `POST /internal/v1/notifications/dry-run` answers, as callers read it."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from services.ingest.model import ClampedPriority
from shared.web.model import Answer


class DryRunVerdict(Answer):
    verdict: Literal["go", "skip", "defer", "redirect"]
    reason: str | None = None
    until: datetime | None = Field(default=None, description="With defer.")
    to: str | None = Field(default=None, description="With redirect: the channel that stands in.")


class DryRunStep(DryRunVerdict):
    """One rule's answer."""

    rule: str
    text: str


class UsedTemplate(Answer):
    locale: str
    version: int


class SmsSegments(Answer):
    encoding: str
    count: int
    units: int = Field(description="Septets (GSM-7) or UTF-16 code units (UCS-2), headers not counted.")


class DryRunChannel(DryRunVerdict):
    """What would happen on one channel; content only of what would go, now or later."""

    channel: str
    text: str
    instead_of: str | None = None
    targets: int = Field(description="Addresses or devices it would go to.")
    left_out: list[str] | None = Field(default=None, description="Reasons of targets that would not get it.")
    send_until: datetime | None = Field(default=None, description="What is not sent by then waits for the morning.")
    trail: list[DryRunStep]
    template: UsedTemplate | None = None
    content: dict[str, Any] | None = None
    segments: SmsSegments | None = Field(default=None, description="SMS alone.")
    render_problem: str | None = None


class DryRunAnswer(Answer):
    """Nothing of it is stored: no notification, no place in the user's day, no claim on the content window."""

    state: Literal["DECIDED", "DEFERRED"]
    until: datetime | None = None
    user_known: bool
    message_class: str = Field(alias="class")
    expires_at: datetime
    priority: ClampedPriority | None = None
    duplicate_of: str | None = Field(default=None, description="The notification that has said the same.")
    channels: list[DryRunChannel]
