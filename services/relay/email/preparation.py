"""From claimed rows to mails: opened, decided with the facts of this moment, rendered. One bad row is a value."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.relay.email.facts import EmailFacts, FactStore
from services.relay.email.plan import Record, after_attempt, lowered, put_back, refused
from services.relay.email.row import EmailRow, open_row
from shared.core.address import target_key
from shared.core.catalogue import NotificationType
from shared.core.control import Pause
from shared.core.email import EmailRequest
from shared.core.identifier import EMAIL, public_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.ports import Prepared
from shared.core.reference import DeliveryKey
from shared.core.retry import Backoff
from shared.core.zone import zone_named
from shared.decision.email import EmailDecision, Known, decide_email
from shared.decision.verdict import GO, Skip
from shared.delivery.hours import next_hours
from shared.delivery.mail import CHANNEL, REREAD_SEC, CatalogueSource, Mail, MailMaker
from shared.delivery.prepare import Unprepared
from shared.postgres.errors import UNAVAILABLE
from shared.runtime.error import OperatorError
from shared.runtime.keyring import KeyRingError, RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import EMAIL_UNSEALABLE
from shared.wire.channel import Category

UNKNOWN_KEY_REST_SEC: Final = 30.0
"""How long a row rests whose key is not in the ring: a rotation under way brings it, a person must see to the rest."""

_PAUSED_LOOK: Final = timedelta(seconds=30)
"""How long a row of a paused type rests before it is looked at again: so late, at most, it hears of the resume."""

_NOT_THE_ROWS: Final[tuple[type[Exception], ...]] = (OperatorError, *UNAVAILABLE)
_LACKING: Final = frozenset({Reason.UNKNOWN_TYPE, Reason.NO_TEMPLATE})

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ready:
    """One row's mail. messages: by recipient's position, of those it goes to now; neighbours that share an Envelope.

    recipients: of the whole mail. left_out: positions that it never goes to, and why. marketing takes a consent.
    """

    row: EmailRow
    expires_at: datetime
    recipients: int
    messages: Mapping[int, Prepared]
    left_out: Mapping[int, Reason] = field(default_factory=dict)
    marketing: bool = False

    def without(self, refused: Mapping[int, Reason]) -> "Ready":
        """The mail to the others alone."""
        going = {position: message for position, message in self.messages.items() if position not in refused}
        return replace(self, messages=going, left_out={**self.left_out, **refused})


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a claim's rows came to: mails to send, and rows that are dealt with already."""

    ready: list[Ready] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Opened:
    row: EmailRow
    request: EmailRequest
    target_keys: tuple[bytes, ...]


class Preparer:
    """Prepares batches for one source, whose name is for logs and metrics."""

    def __init__(
        self,
        source: str,
        *,
        rings: RingSource,
        facts: FactStore,
        catalogue: CatalogueSource,
        maker: MailMaker,
        backoff: Backoff,
        default_locale: str,
        default_zone: str,
        paused: Callable[[str], Pause | None] = lambda _type: None,
    ) -> None:
        """paused: what holds a type's mails now."""
        self._source = source
        self._paused = paused
        self._rings = rings
        self._facts = facts
        self._catalogue = catalogue
        self._maker = maker
        self._backoff = backoff
        self._default_locale = default_locale
        self._default_zone = default_zone

    async def prepare(self, rows: Sequence[EmailRow], now: datetime) -> Preparation:
        """Every row once, as a mail or as a record. Raises OperatorErrors and asyncpg's errors."""
        prepared = Preparation()
        opened: list[_Opened] = []
        for row in rows:
            with self._alone(row, prepared):
                found = self._open(row, prepared, now)
                if found is not None:
                    opened.append(found)
        if not opened:
            return prepared
        facts = await self._facts.load(
            [entry.request.user_id for entry in opened if entry.request.user_id is not None],
            [key for entry in opened for key in entry.target_keys],
        )
        for entry in opened:
            with self._alone(entry.row, prepared):
                await self._make(entry, await self._decide(entry, facts, now), facts, prepared, now)
        return prepared

    async def still_wanted(self, mails: Sequence[Ready]) -> list[Ready]:
        """The mails as consents and suppressions stand now (C5): who may not get marketing any more is left out of it.

        No query where none of them is marketing. A mail may come back without messages. Raises asyncpg's errors.
        """
        asked = [
            (mail.row.id, position, message.key.target_key)
            for mail in mails
            if mail.marketing
            for position, message in mail.messages.items()
        ]
        if not asked:
            return list(mails)
        reasons = await self._facts.refused([key for _, _, key in asked])
        refused: dict[UUID, dict[int, Reason]] = {}
        for index, reason in reasons.items():
            row_id, position, _ = asked[index]
            refused.setdefault(row_id, {})[position] = reason
        return [mail.without(refused[mail.row.id]) if mail.row.id in refused else mail for mail in mails]

    @contextmanager
    def _alone(self, row: EmailRow, prepared: Preparation) -> Iterator[None]:
        """A surprise about one row must not take its batch along, again and again: that row is FAILED, and it is told.

        What is wrong with a database or the key ring is not the row's fault and is raised.
        """
        try:
            yield
        except _NOT_THE_ROWS:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, it comes of this row; it is logged
            name = type(error).__name__
            _log.exception("email_surprise", source=self._source, email_id=public_id(EMAIL, row.id), error_class=name)
            prepared.records.append(refused(row, Reason.RENDER, f"surprise: {name}"))

    def _open(self, row: EmailRow, prepared: Preparation, now: datetime) -> _Opened | None:
        if row.attempt_count >= self._backoff.max_attempts:
            # Only the reaper brings a row so far: the last attempt was under way when its lease ran out.
            prepared.records.append(refused(row, Reason.EXHAUSTED, "the last attempt never ended"))
            return None
        request = open_row(row, self._rings.ring)
        if isinstance(request, Unprepared) and request.status is DeliveryStatus.PENDING and self._another_ring():
            request = open_row(row, self._rings.ring)
        if isinstance(request, Unprepared):
            self._unprepared(row, request, prepared, now)
            return None
        ring, everybody = self._rings.ring, request.recipients
        # Positions that the mail does not have are nobody's.
        outcomes = {position: told for position, told in row.outcomes.items() if position < len(everybody)}
        keys = tuple(target_key(ring, CHANNEL, recipient.mailbox.address.canonical) for recipient in everybody)
        return _Opened(replace(row, outcomes=outcomes), request, keys)

    def _another_ring(self) -> bool:
        """Whether looking again brought another ring; one that cannot be read is no reason to hold up other rows."""
        try:
            return self._rings.refresh()
        except KeyRingError as error:
            _log.error("key_ring_not_refreshed", reason=str(error))
            return False

    def _unprepared(self, row: EmailRow, found: Unprepared, prepared: Preparation, now: datetime) -> None:
        waits = found.status is DeliveryStatus.PENDING
        if found.reason is Reason.UNSEALABLE:
            EMAIL_UNSEALABLE.labels(self._source, "unknown" if waits else "lost").inc()
            _log.error("email_unsealable", source=self._source, email_id=public_id(EMAIL, row.id), detail=found.detail)
        if waits:
            prepared.records.append(put_back(row, found.detail, until=now + timedelta(seconds=UNKNOWN_KEY_REST_SEC)))
        else:
            prepared.records.append(refused(row, found.reason, found.detail))

    async def _decide(self, entry: _Opened, facts: EmailFacts, now: datetime) -> EmailDecision:
        user_id = entry.request.user_id or ""
        known = Known(
            id=entry.row.id,
            created_at=entry.row.created_at,
            target_keys=entry.target_keys,
            expires_at=entry.row.expires_at,
            locale=facts.locales.get(user_id),
            preferences=facts.preferences.get(user_id, {}),
            suppressed=facts.suppressed,
            unsolicited=facts.unsolicited,
            consented=facts.consented,
        )
        catalogue = await self._catalogue.get()
        decision = decide_email(entry.request, known, catalogue, now, default_locale=self._default_locale)
        if isinstance(decision.verdict, Skip) and decision.verdict.reason in _LACKING:
            catalogue = await self._catalogue.get(max_age_sec=REREAD_SEC)  # it may have been pushed a moment ago
            decision = decide_email(entry.request, known, catalogue, now, default_locale=self._default_locale)
        return decision

    def _due(
        self, row: EmailRow, found: NotificationType, expires_at: datetime, zone: str | None, now: datetime
    ) -> datetime:
        """When it may go: `now`, or after the quiet hours of its type where the user lives."""
        where = zone_named(zone, self._default_zone)
        return next_hours(found.quiet_hours, where, now, expires_at=expires_at, notification_id=row.id).due

    async def _make(
        self, entry: _Opened, decision: EmailDecision, facts: EmailFacts, prepared: Preparation, now: datetime
    ) -> None:
        row, request = entry.row, entry.request
        verdict = decision.verdict
        if isinstance(verdict, Skip) and verdict.reason is not Reason.SUPPRESSED:
            prepared.records.append(refused(row, verdict.reason, _lacking(verdict.reason, request)))
            return
        assert decision.type is not None  # an unknown type is refused
        assert decision.expires_at is not None
        if decision.type.message_class > row.message_class:
            prepared.records.append(lowered(row, decision.type.message_class))
            return
        left = [position for position in range(len(request.recipients)) if position not in row.outcomes]
        going = [position for position in left if decision.recipients[position] is GO]
        left_out = {
            position: verdict.reason for position in left if isinstance(verdict := decision.recipients[position], Skip)
        }
        if not going:
            prepared.records.append(
                after_attempt(
                    row,
                    {},
                    recipients=len(request.recipients),
                    left_out=left_out,
                    provider="",
                    expires_at=decision.expires_at,
                    backoff=self._backoff,
                    now=now,
                    jitter=0.0,
                )
            )
            return
        pause = self._paused(request.type_name)
        if pause is not None:
            told = f"{Reason.PAUSED}: {pause.kind} {pause.name}, by {pause.paused_by}: {pause.note}"
            prepared.records.append(put_back(row, told, until=min(now + _PAUSED_LOOK, decision.expires_at)))
            return
        due = self._due(row, decision.type, decision.expires_at, facts.zones.get(request.user_id or ""), now)
        if due > now:
            prepared.records.append(put_back(row, Reason.QUIET_HOURS, until=due))
            return
        mail = await self._maker.make(
            request,
            message_reference=public_id(EMAIL, row.id),
            user_locale=facts.locales.get(request.user_id or ""),
        )
        if isinstance(mail, Unprepared):
            self._unprepared(row, mail, prepared, now)
            return
        messages = {position: _message(entry, position, mail, decision.expires_at) for position in going}
        marketing = decision.type.category is Category.MARKETING
        prepared.ready.append(
            Ready(row, decision.expires_at, len(request.recipients), messages, left_out, marketing=marketing)
        )


def _lacking(reason: Reason, request: EmailRequest) -> str | None:
    match reason:
        case Reason.UNKNOWN_TYPE:
            return f"no notification type {request.type_name}: `ulak templates push` it"
        case Reason.NO_TEMPLATE:
            return f"no e-mail template of {request.template}: `ulak templates push` it"
        case _:
            return None


def _message(entry: _Opened, position: int, mail: Mail, expires_at: datetime) -> Prepared:
    return Prepared(
        key=DeliveryKey(entry.row.id, CHANNEL, entry.target_keys[position]),
        attempt=entry.row.attempt_count + 1,
        address=entry.request.recipients[position].mailbox.address.text,
        content=mail.content,
        message_class=entry.row.message_class,
        expires_at=expires_at,
        envelope=mail.envelope,
    )
