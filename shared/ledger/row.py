"""From a decided request to its rows and messages. Pure but for nonces and fresh ids."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from shared.core.catalogue import NotificationType
from shared.core.deduplication import EMAIL_MAPPING
from shared.core.email import request_json
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, seal
from shared.decision.email import CHANNEL, EmailDecision
from shared.decision.verdict import Go, Skip
from shared.delivery.message import event_record, hint_record
from shared.delivery.row import Owed
from shared.kafka.record import Record
from shared.ledger.ask import EmailAsk, Outgoing
from shared.ledger.facts import EmailFacts
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass
from shared.wire.message import DeliveryHint

_DEDUP_KEPT: Final = timedelta(days=7)
_DEDUP_AFTER_EXPIRY: Final = timedelta(days=1)
"""data.md, Dedup: a row lives until the later of 7 days and expiry + 1 day."""
_AT_SEND: Final = 0
"""`contents.template_version` of what is rendered when it is sent."""
_MAX_DETAIL: Final = 256
_HOURS_ARE_OVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""`send_until` where a type has quiet hours: the worker gives each its next ones (shared/delivery/hours.py), by the
user's zone and its own clock, before it sends the first."""

NOTIFICATIONS: Final = (
    *("id", "application_id", "event_id", "user_id", "type", "message_class", "mode", "state", "locale"),
    *("event_time", "expires_at", "api_key_id", "traceparent", "created_at"),
)
DELIVERIES: Final = (
    *("notification_id", "channel", "target_key", "address_sealed", "status", "reason", "message_class", "promise"),
    *("mode", "next_attempt_at", "expires_at", "created_at", "updated_at", "marketing", "send_until"),
)
CONTENTS: Final = ("notification_id", "channel", "sealed", "purpose", "locale", "template_version")
LOG: Final = ("notification_id", "id", "kind", "channel", "target_key", "result", "reason", "detail")
INTAKES: Final = ("notification_id", "source", "source_id", "owned_files", "created_at")


def refusal(decision: EmailDecision) -> Skip | None:
    """The refusal of the message as a whole, if a rule refuses it; a recipient's own is not one."""
    if decision.type is None:
        return decision.verdict if isinstance(decision.verdict, Skip) else None
    return next((step.verdict for step in decision.trail if isinstance(step.verdict, Skip)), None)


@dataclass(frozen=True, slots=True)
class EmailEntry:
    """A request that goes into the ledger, decided at `now`: PENDING for who gets it, SKIPPED for who does not."""

    ask: EmailAsk
    facts: EmailFacts
    decision: EmailDecision
    type: NotificationType
    expires_at: datetime
    now: datetime

    @property
    def id(self) -> UUID:
        return self.ask.id

    @property
    def dedup_key(self) -> tuple[int, str, str]:
        return self.ask.application_id, self.ask.key, EMAIL_MAPPING

    @property
    def dedup_until(self) -> datetime:
        return max(self.now + _DEDUP_KEPT, self.expires_at + _DEDUP_AFTER_EXPIRY)

    @property
    def message_class(self) -> MessageClass:
        asked = self.ask.asked_class
        return self.type.message_class if asked is None else max(self.type.message_class, asked)

    @property
    def locale(self) -> str | None:
        """The request's own, else what is known of the user: kept with the request for when it is rendered."""
        return self.ask.request.locale or self.facts.known.locale

    def notification(self) -> tuple[Any, ...]:
        a = self.ask
        return (
            *(a.id, a.application_id, a.key, self.facts.user_id, self.type.name, self.message_class, a.mode),
            *(NotificationState.DECIDED, self.locale, a.created_at, self.expires_at, a.api_key_id, a.traceparent),
            self.now,
        )

    def deliveries(self, ring: KeyRing) -> Iterable[tuple[Any, ...]]:
        promise = self.type.promise(DEFAULT_CHANNELS.spec(CHANNEL))
        marketing = self.type.category is Category.MARKETING
        send_until = None if self.type.quiet_hours is None else _HOURS_ARE_OVER
        recipients = zip(self.ask.request.recipients, self._verdicts(), strict=True)
        for recipient, (key, verdict) in recipients:
            status, reason = _born(verdict)
            address = seal(ring, Purpose.ADDRESS, key, recipient.mailbox.address.text.encode())
            yield (
                *(self.id, CHANNEL, key, address, status, reason, self.message_class, promise, self.ask.mode),
                *(self.now, self.expires_at, self.now, self.now, marketing, send_until),
            )

    def content(self, ring: KeyRing) -> tuple[Any, ...]:
        """The whole request, sealed: it is rendered when it is sent."""
        plain = request_json(replace(self.ask.request, locale=self.locale))
        sealed = seal(ring, Purpose.EMAIL, self.id.bytes + CHANNEL.encode(), plain)
        return self.id, CHANNEL, sealed, Purpose.EMAIL, self.locale or "", _AT_SEND

    def log(self) -> Iterable[tuple[Any, ...]]:
        """The verdict on the message, and on each recipient that is left out though others get it.

        As the router does, a plain Go of the lower classes is not logged.
        """
        refused = refusal(self.decision)
        trail = ", ".join(
            f"{step.rule} {'go' if isinstance(step.verdict, Go) else 'skip'}" for step in self.decision.trail
        )
        if refused is not None:
            yield self.id, new_id(), "verdict", CHANNEL, b"", "skip", refused.reason, trail[:_MAX_DETAIL]
            return
        if isinstance(self.decision.verdict, Go) and self.message_class < MessageClass.BULK:
            yield self.id, new_id(), "verdict", CHANNEL, b"", "go", None, trail[:_MAX_DETAIL]
        for key, verdict in self._verdicts():
            if isinstance(verdict, Skip):
                yield self.id, new_id(), "verdict", CHANNEL, key, "skip", verdict.reason, None

    def intake(self) -> tuple[Any, ...]:
        return self.id, self.ask.source, self.ask.source_id, list(self.ask.owned_files), self.now

    def outgoing(self) -> Iterable[Outgoing]:
        """One hint for the message, by its first recipient who gets it, and the events of those who do not."""
        hinted = False
        for key, verdict in self._verdicts():
            if isinstance(verdict, Skip):
                yield Outgoing(new_id(), self.message_class, self._event(key, verdict.reason))
            elif not hinted:
                hinted = True
                yield Outgoing(self.id, self.message_class, self._hint(key))

    def _verdicts(self) -> Sequence[tuple[bytes, Go | Skip]]:
        return tuple(zip(self.facts.known.target_keys, self.decision.recipients, strict=True))

    def _hint(self, key: bytes) -> Record:
        hint = DeliveryHint(self.id, CHANNEL, key, 0, self.message_class)
        lane = DEFAULT_CHANNELS.spec(CHANNEL).lane(self.message_class)
        trace = None if self.ask.traceparent is None else self.ask.traceparent.encode()
        return hint_record(Owed(hint, None), lane, str(self.id).encode(), trace)

    def _event(self, key: bytes, reason: Reason) -> Record:
        return event_record(
            DeliveryKey(self.id, CHANNEL, key),
            status=DeliveryStatus.SKIPPED,
            reason=reason,
            attempt=0,
            provider=None,
            at=self.now,
        )


def _born(verdict: Go | Skip) -> tuple[DeliveryStatus, Reason | None]:
    if isinstance(verdict, Skip):
        return DeliveryStatus.SKIPPED, verdict.reason
    return DeliveryStatus.PENDING, None
