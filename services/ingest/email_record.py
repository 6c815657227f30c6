"""What became of an e-mail, in either model, as the reading calls tell it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from services.ingest.explain import explain, summary
from services.ingest.record import DeliveryRecord, LogRecord, NotificationReader, NotificationRecord
from shared.core.address import masked, target_key
from shared.core.email import InvalidEmailError, Recipient, recipients_from_json, request_from_json
from shared.core.identifier import EMAIL, NOTIFICATION, public_id
from shared.core.lifecycle import SETTLED, DeliveryStatus
from shared.core.sealing import KeyRing, Purpose, SealError, UnknownKeyError, open_sealed
from shared.decision.email_row import End, TableEmail, read_row, tell_row, where_it_stands
from shared.decision.step import Step
from shared.decision.wording import Language, own_detail
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource

_SQL: Final = load_queries("email_api")
_CHANNEL: Final = "EMAIL"
_REACHED: Final = frozenset({DeliveryStatus.SENT, DeliveryStatus.DELIVERED})


@dataclass(frozen=True, slots=True)
class LedgerEmail:
    """Model B. recipients by target key, while the request is kept: it is cleared once nobody is sent it again."""

    id: UUID
    notification: NotificationRecord
    deliveries: Sequence[DeliveryRecord]
    recipients: Mapping[bytes, Recipient] = field(repr=False)

    @property
    def status(self) -> str:
        statuses = {DeliveryStatus(delivery.status) for delivery in self.deliveries}
        if DeliveryStatus.SENDING in statuses:
            return DeliveryStatus.SENDING
        if not statuses <= SETTLED:
            return DeliveryStatus.PENDING
        return DeliveryStatus.SENT if statuses <= _REACHED else DeliveryStatus.FAILED

    @property
    def ordered(self) -> Sequence[DeliveryRecord]:
        """In the order of the request, as far as it is known."""
        positions = {key: position for position, key in enumerate(self.recipients)}
        return sorted(self.deliveries, key=lambda each: positions.get(each.target_key, len(positions)))


class EmailReader:
    """Reads; application None stands for a caller that may read every application's."""

    def __init__(self, pool: Pool, rings: RingSource, notifications: NotificationReader) -> None:
        self._pool = pool
        self._rings = rings
        self._notifications = notifications

    async def email(self, email_id: UUID, application: int | None) -> LedgerEmail | TableEmail | None:
        """By the id that the API answered with, or by that of a source's row that went into the ledger."""
        with translated():
            notification_id = await self._pool.fetchval(_SQL["ledger_email"], email_id)
            if notification_id is None:
                row = await self._pool.fetchrow(_SQL["table_email"], email_id, application)
                return None if row is None else self._table_email(row)
            sealed = await self._pool.fetchval(_SQL["email_content"], notification_id)
        record = await self._notifications.notification(notification_id, application)
        if record is None:
            return None
        recipients = {} if sealed is None else self._requested(notification_id, sealed)
        return LedgerEmail(email_id, record, await self._notifications.deliveries(notification_id), recipients)

    async def log(self, email: LedgerEmail) -> list[LogRecord]:
        return await self._notifications.log(email.notification.id)

    def _requested(self, notification_id: UUID, sealed: bytes) -> Mapping[bytes, Recipient]:
        try:
            plain = self._open(Purpose.EMAIL, notification_id.bytes + _CHANNEL.encode(), sealed)
            recipients = request_from_json(plain).recipients
        except (SealError, InvalidEmailError):
            return {}
        ring = self._rings.ring
        return {target_key(ring, _CHANNEL, each.mailbox.address.canonical): each for each in recipients}

    def _table_email(self, row: Any) -> TableEmail:
        try:
            plain = row["recipients"]
            if row["sealed"]:
                plain = self._open(Purpose.OUTBOX, row["id"].bytes + b"recipients", plain)
            recipients: Sequence[Recipient] = recipients_from_json(plain)
        except (SealError, InvalidEmailError):
            recipients = ()
        return read_row(row, recipients)

    def _open(self, purpose: Purpose, row: bytes, sealed: bytes) -> bytes:
        def opened(ring: KeyRing) -> bytes:
            return open_sealed(ring, purpose, row, sealed)

        try:
            return opened(self._rings.ring)
        except UnknownKeyError:
            if not self._rings.refresh():
                raise
            return opened(self._rings.ring)


def email_body(email: LedgerEmail | TableEmail) -> dict[str, Any]:
    """The answer of `GET /internal/v1/emails/{id}`; what is not known is left out."""
    body = _ledger_body(email) if isinstance(email, LedgerEmail) else _table_body(email)
    return {name: value for name, value in body.items() if value is not None}


def email_explain_body(email: LedgerEmail | TableEmail, log: Sequence[LogRecord], language: Language) -> dict[str, Any]:
    """The answer of `GET /internal/v1/emails/{id}/explain`. log: the ledger's lines; the table has none."""
    body: dict[str, Any] = {"emailId": public_id(EMAIL, email.id)}
    if isinstance(email, LedgerEmail):
        body["notificationId"] = public_id(NOTIFICATION, email.notification.id)
        steps: Sequence[Step] = explain(email.notification, email.deliveries, log, language)
        told = summary(email.notification, email.deliveries, language)
    else:
        steps = tuple(tell_row(email, language.phrases))
        told = where_it_stands(email, language.phrases)
    return body | {"state": email.status, "summary": told, "steps": [step.body() for step in steps]}


def _ledger_body(email: LedgerEmail) -> dict[str, Any]:
    record, status = email.notification, email.status
    open_ones = [each for each in email.deliveries if each.status == DeliveryStatus.PENDING]
    sent = max((each.updated_at for each in email.deliveries), default=None) if status == DeliveryStatus.SENT else None
    return {
        "emailId": public_id(EMAIL, email.id),
        "notificationId": public_id(NOTIFICATION, record.id),
        "model": "B",
        "status": status,
        "type": record.type,
        "attempts": max((each.attempts for each in email.deliveries), default=0),
        "createdAt": record.created_at,
        "expiresAt": record.expires_at,
        "nextAttemptAt": min((each.next_attempt_at for each in open_ones), default=None),
        "sentAt": sent,
        "recipients": [
            _recipient_body(
                email.recipients.get(each.target_key), each.target, End(each.status, each.reason, each.detail)
            )
            for each in email.ordered
        ],
    }


def _table_body(email: TableEmail) -> dict[str, Any]:
    waits = email.status == DeliveryStatus.PENDING
    return {
        "emailId": public_id(EMAIL, email.id),
        "model": "A",
        "status": email.status,
        "template": email.template,
        "type": email.type or email.template,
        "attempts": email.attempts,
        "createdAt": email.created_at,
        "expiresAt": email.expires_at,
        "nextAttemptAt": email.next_attempt_at if waits else None,
        "sentAt": email.sent_at,
        "recipients": [
            _recipient_body(each, None, email.of_recipient(position)) for position, each in enumerate(email.recipients)
        ],
    }


def _recipient_body(recipient: Recipient | None, address: str | None, end: End) -> dict[str, Any]:
    """address: as it is shown; None: the recipient's, masked."""
    body: dict[str, Any] = {} if recipient is None else {"field": recipient.field}
    if address is None and recipient is not None:
        address = masked(_CHANNEL, recipient.mailbox.address.text)
    body |= {"address": address or "", "status": end.status}
    told = {"reason": end.reason, "detail": own_detail(end.reason, end.detail)}
    return body | {name: value for name, value in told.items() if value is not None}
