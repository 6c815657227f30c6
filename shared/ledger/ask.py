"""What asks for an entry, and what it is answered. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.core.deduplication import request_fingerprint
from shared.core.email import EmailRequest, attachments_json, recipients_json
from shared.core.lifecycle import Reason
from shared.core.sealing import KeyRing
from shared.decision.facts import Mode
from shared.kafka.record import Record
from shared.wire.channel import MessageClass

NO_SOURCE: Final = ""
"""The source of what came by `POST /emails`: its source_id is the notification's id."""


@dataclass(frozen=True, slots=True)
class EmailAsk:
    """One request on its way into the ledger. id will be the notification's, unless the request is there already.

    (source, source_id) is the row it comes from; (application_id, key) makes it one, whatever its type; fingerprint
    tells the same body from another. asked_class None: the type's; else it may only lower the type's. expires_at None:
    created_at, when the request was written, and the type's time to live. owned_files: storage references
    that go with the entry, where Ulak owns them, because no source row takes them along.
    """

    id: UUID
    source: str
    source_id: UUID
    application_id: int
    key: str
    fingerprint: bytes
    request: EmailRequest
    created_at: datetime
    asked_class: MessageClass | None = None
    mode: Mode = Mode.LIVE
    expires_at: datetime | None = None
    api_key_id: UUID | None = None
    traceparent: str | None = None
    owned_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entered:
    """notification_id and fingerprint are those of the entry that stands for the request: this one's or an earlier."""

    notification_id: UUID
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no entry, and cannot be one for this request as it is."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message whose outbox row was written with the entry."""

    outbox_id: UUID
    message_class: MessageClass
    record: Record


@dataclass(frozen=True, slots=True)
class Answers:
    """One per request, in order, and what was put into the outbox for those that are new."""

    entries: Sequence[Entered | Refused]
    outgoing: Sequence[Outgoing] = ()


def email_fingerprint(ring: KeyRing, request: EmailRequest) -> bytes:
    """Keyed hash of what would be sent to whom; neither locale nor time nor class makes it another mail."""
    body = {
        "template": request.template,
        "parameters": request.parameters,
        "attachments": attachments_json(request.attachments),
    }
    recipients = recipients_json(request.recipients).decode()
    return request_fingerprint(ring, recipient=recipients, type_name=request.type_name, params=body)
