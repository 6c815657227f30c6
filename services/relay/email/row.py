"""A claimed row of email_messages: opened for sending, sealed for keeping. Pure but for the ring given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from shared.core.email import EmailRequest, InvalidEmailError, parse_attachments, recipients_from_json
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.sealing import KeyRing, Purpose, SealError, UnknownKeyError, open_sealed, seal
from shared.delivery.prepare import Unprepared
from shared.wire.channel import MessageClass

SENT: Final = "SENT"
REFUSED: Final = "FAILED"
"""How an outcome of `email_messages.outcomes` begins that says no: `FAILED <reason>: <detail>`."""


@dataclass(frozen=True, slots=True)
class EmailRow:
    """One row as it was claimed.

    attempt_count: attempts made, without the one under way (ADR 0005). outcomes: position of a recipient -> what became
    of it; whoever has one is not sent to again. repr shows nothing of a person.
    """

    id: UUID
    message_class: MessageClass
    template: str
    type: str | None
    locale: str | None
    user_id: str | None = field(repr=False)
    recipients: bytes = field(repr=False)
    parameters: bytes | None = field(repr=False)
    sealed: bool
    attachments: Sequence[Any] = field(repr=False)
    attempt_count: int
    outcomes: Mapping[int, str]
    expires_at: datetime | None
    created_at: datetime


def read_outcomes(stored: Any) -> dict[int, str]:
    """What a row's `outcomes` say. Entries that we would not write are nobody's: plain SQL may hold anything."""
    entries = stored.items() if isinstance(stored, dict) else ()
    return {int(key): told for key, told in entries if key.isdecimal() and isinstance(told, str) and _is_outcome(told)}


def refusal(told: str) -> tuple[Reason, str]:
    """The reason and the detail of an outcome that says no."""
    reason, _, detail = told.removeprefix(f"{REFUSED} ").partition(": ")
    return Reason(reason), detail


def _is_outcome(told: str) -> bool:
    if told == SENT:
        return True
    try:
        refusal(told)
    except ValueError:
        return False
    return told.startswith(f"{REFUSED} ")


def open_row(row: EmailRow, ring: KeyRing) -> EmailRequest | Unprepared:
    """The request in the row. A key the ring does not know may come with a rotation under way, so that row waits."""
    try:
        recipients = _opened(row, ring, "recipients", row.recipients)
        parameters = orjson.loads(b"{}" if row.parameters is None else _opened(row, ring, "parameters", row.parameters))
        if not isinstance(parameters, dict):
            return _failed(Reason.RENDER, "the parameters are not a JSON object")
        return EmailRequest(
            recipients=recipients_from_json(recipients),
            template=row.template,
            parameters=parameters,
            type=row.type,
            locale=row.locale,
            user_id=row.user_id,
            attachments=parse_attachments(row.attachments),
        )
    except UnknownKeyError as error:
        return Unprepared(DeliveryStatus.PENDING, Reason.UNSEALABLE, str(error))
    except SealError as error:
        return _failed(Reason.UNSEALABLE, str(error))
    except InvalidEmailError as error:
        return _failed(Reason.INVALID, str(error))
    except orjson.JSONDecodeError:
        return _failed(Reason.RENDER, "the parameters are not JSON")


def seal_row(row: EmailRow, ring: KeyRing) -> tuple[bytes, bytes | None] | None:
    """Recipients and parameters as they are kept from the first outcome on; None for a row that was sealed before."""
    if row.sealed:
        return None
    parameters = row.parameters
    return (
        seal(ring, Purpose.OUTBOX, _identity(row, "recipients"), row.recipients),
        None if parameters is None else seal(ring, Purpose.OUTBOX, _identity(row, "parameters"), parameters),
    )


def _opened(row: EmailRow, ring: KeyRing, column: str, value: bytes) -> bytes:
    return open_sealed(ring, Purpose.OUTBOX, _identity(row, column), value) if row.sealed else value


def _identity(row: EmailRow, column: str) -> bytes:
    return row.id.bytes + column.encode()


def _failed(reason: Reason, detail: str) -> Unprepared:
    return Unprepared(DeliveryStatus.FAILED, reason, detail)
