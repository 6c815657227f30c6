"""A row of `email_messages` and its story in words, for whoever is asked about it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.core.address import masked
from shared.core.email import Recipient
from shared.core.lifecycle import DeliveryStatus
from shared.decision.phrase import Phrases
from shared.decision.step import Step
from shared.decision.wording import because, moment, to_mend
from shared.wire.channel import MessageClass

_CHANNEL: Final = "EMAIL"


@dataclass(frozen=True, slots=True)
class End:
    """Where a row, or one of its recipients, stands; why, if it failed, and what was met."""

    status: str
    reason: str | None = None
    detail: str | None = None

    @classmethod
    def read(cls, status: str, why: str | None) -> "End":
        """why: as it is stored, `target_gone: 550 ...`."""
        reason, _, detail = (why or "").partition(": ")
        return cls(status, reason or None, detail or None)


@dataclass(frozen=True, slots=True)
class TableEmail:
    """The row. recipients are empty where they do not open; outcomes: position -> SENT, or FAILED and why."""

    id: UUID
    status: str
    message_class: MessageClass
    template: str
    type: str | None
    attempts: int
    next_attempt_at: datetime
    outcomes: Mapping[int, str]
    provider: str | None
    error: str | None
    expires_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    locked_at: datetime | None
    recipients: Sequence[Recipient] = field(repr=False)

    @property
    def end(self) -> End:
        """How it stands; a row that waits says what its last attempt met, which is no reason yet."""
        return End(self.status) if self.status != DeliveryStatus.FAILED else End.read(self.status, self.error)

    def of_recipient(self, position: int) -> End:
        """A recipient's own end where it has one, else the row's."""
        told = self.outcomes.get(position)
        if told is None:
            return self.end
        status, _, why = told.partition(" ")
        return End.read(status, why)


def read_row(row: Mapping[str, Any], recipients: Sequence[Recipient]) -> TableEmail:
    """row: its columns by name; recipients: opened, as they are sealed."""
    outcomes = row["outcomes"]
    return TableEmail(
        id=row["id"],
        status=row["status"],
        message_class=MessageClass(row["message_class"]),
        template=row["template"],
        type=row["type"],
        attempts=row["attempt_count"],
        next_attempt_at=row["next_attempt_at"],
        outcomes={int(place): told for place, told in outcomes.items() if place.isdecimal()},
        provider=row["provider"],
        error=row["error_message"],
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        sent_at=row["sent_at"],
        locked_at=row["locked_at"],
        recipients=recipients,
    )


def tell_row(email: TableEmail, phrases: Phrases) -> Iterator[Step]:
    """A row's story, as far as it says: a table has no log."""
    text = phrases.email_accepted.format(
        type=email.type or email.template,
        template=email.template,
        message_class=email.message_class.label,
        lives="" if email.expires_at is None else phrases.email_lives.format(until=moment(email.expires_at)),
    )
    yield Step(email.created_at, text, "accepted")
    by = phrases.by_provider.format(provider=email.provider) if email.provider else ""
    at = email.sent_at or email.locked_at or email.next_attempt_at
    for position, recipient in enumerate(email.recipients):
        if position in email.outcomes:
            end = email.of_recipient(position)
            what = phrases.to_target.format(channel=_CHANNEL, target=masked(_CHANNEL, recipient.mailbox.address.text))
            word = phrases.statuses[DeliveryStatus(end.status)]
            text = phrases.outcome.format(what=what, status=word, by=by, why=because(end.reason, phrases))
            text += to_mend(end.reason, end.detail, phrases)
            yield Step(at, text, end.status.lower(), _CHANNEL, end.reason)
    end = email.end
    told = where_it_stands(email, phrases) + to_mend(end.reason, None, phrases)  # its error tells the detail
    yield Step(at, told, email.status.lower(), _CHANNEL, end.reason)


def where_it_stands(email: TableEmail, phrases: Phrases) -> str:
    """In one sentence."""
    attempts = (phrases.one_attempt if email.attempts == 1 else phrases.many_attempts).format(count=email.attempts)
    last = phrases.last_met.format(error=email.error) if email.error else ""
    match email.status:
        case DeliveryStatus.SENT:
            return phrases.email_sent.format(attempts=attempts)
        case DeliveryStatus.FAILED:
            return phrases.email_failed.format(attempts=attempts, error=email.error or phrases.no_reason_kept)
        case DeliveryStatus.SENDING:
            return phrases.email_sending.format(attempts=attempts, last=last)
        case _:
            return phrases.email_waits.format(until=moment(email.next_attempt_at), attempts=attempts, last=last)
