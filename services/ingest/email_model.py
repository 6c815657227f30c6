"""Bodies of `/internal/v1/emails`, as callers write and read them."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from services.ingest.model import ClampedPriority, ExplainedStep
from shared.core.email import MAX_ATTACHMENTS, MAX_RECIPIENTS
from shared.web.model import Answer, Body, Key, Locale, Name, UserId

LONGEST_LIFE_SEC: Final = 30 * 86_400

MailboxText = Annotated[str, StringConstraints(max_length=600)]
"""`name@example.com` or `Name <name@example.com>`."""
Model = Literal["A", "B"]


class AttachmentBody(Body):
    """A file by reference: read when the mail is sent."""

    filename: str = Field(max_length=200, examples=["R-7.pdf"])
    content_type: str = Field(max_length=129, examples=["application/pdf"])
    storage_ref: str = Field(max_length=1024, examples=["file:invoices/R-7.pdf", "s3://mails/R-7.pdf"])
    content_id: str | None = Field(
        default=None, max_length=100, description="Shown inside the HTML, which names it as `cid:<contentId>`."
    )


class EmailBody(Body):
    """One e-mail to its recipients together: who is in to and cc is shown to all of them."""

    to: list[MailboxText] = Field(min_length=1, max_length=MAX_RECIPIENTS, examples=[["Ayşe <ayse@example.com>"]])
    cc: list[MailboxText] = Field(default=[], max_length=MAX_RECIPIENTS)
    bcc: list[MailboxText] = Field(default=[], max_length=MAX_RECIPIENTS)
    template: Name = Field(examples=["INVOICE_READY"], description="The type whose e-mail templates are used.")
    parameters: dict[str, Any] = Field(examples=[{"number": "R-7"}])
    attachments: list[AttachmentBody] = Field(default=[], max_length=MAX_ATTACHMENTS)
    idempotency_key: Key | None = Field(
        default=None,
        description="The same key and body again is the same e-mail; without a key each call is a new one.",
    )
    type: Name | None = Field(
        default=None, description="Whose category, class and time to live apply; default: the template's own."
    )
    user_id: UserId | None = Field(default=None, description="Whose preferences and language apply.")
    locale: Locale | None = None
    priority: str | None = Field(
        default=None,
        max_length=16,
        description="critical, tx, bulk, low, or SECURITY, TRANSACTIONAL, MARKETING. May lower below the type's class; "
        "raising is clamped and reported in the answer.",
    )
    expires_in_seconds: int | None = Field(
        default=None,
        ge=1,
        le=LONGEST_LIFE_SEC,
        description="Not sent later than that; default: the type's time to live.",
    )
    model: Model | None = Field(
        default=None,
        description="A: sent from its table. B: by the ledger and Kafka. Default: the installation's. What a team or "
        "test key asks for always goes by B.",
    )


class EmailAcceptedAnswer(Answer):
    email_id: str = Field(examples=["eml_01kbapv8a4fevs0dqf3qx5kpkx"])
    notification_id: str | None = Field(default=None, description="Model B: its notification in the ledger.")
    priority: ClampedPriority | None = Field(default=None, description="Present only when the priority was clamped.")


class EmailRecipientAnswer(Answer):
    field: Literal["to", "cc", "bcc"] | None = Field(
        default=None, description="Absent where the request is not readable."
    )
    address: str = Field(description="Masked.")
    status: Literal["PENDING", "SENDING", "SENT", "DELIVERED", "FAILED", "SKIPPED", "UNKNOWN"]
    reason: str | None = None
    detail: str | None = Field(
        default=None, description="What was met, where it is not a provider's doing: a template, a file, a setting."
    )


class EmailAnswer(Answer):
    email_id: str
    notification_id: str | None = None
    model: Model
    status: Literal["PENDING", "SENDING", "SENT", "FAILED"] = Field(
        description="SENT: every recipient has it. FAILED: it is over, and at least one has not."
    )
    template: str | None = None
    type: str
    attempts: int
    created_at: datetime
    expires_at: datetime | None = None
    next_attempt_at: datetime | None = None
    sent_at: datetime | None = None
    recipients: list[EmailRecipientAnswer]


class EmailExplainAnswer(Answer):
    email_id: str
    notification_id: str | None = None
    state: str
    summary: str
    steps: list[ExplainedStep]
