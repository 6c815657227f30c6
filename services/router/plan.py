"""From a decision and the written content to the rows that say so. Pure but for the ids of log rows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from services.router.notification import (
    LETTERED,
    Claim,
    Draft,
    Letter,
    LogEntry,
    NewContent,
    NewDelivery,
    Notification,
    Plan,
    Reservation,
    Unwritable,
)
from shared.core.catalogue import NotificationType
from shared.core.identifier import NOTIFICATION, new_id, public_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.decision.chain import CHAIN, ChannelDecision, Decision, RuleVerdict
from shared.decision.facts import Target
from shared.decision.verdict import Defer, Go, Redirect, Skip, Verdict
from shared.facts.store import window_of
from shared.wire.channel import Category, Channels, MessageClass, Promise

MAX_DETAIL: Final = 256
"""Width of `delivery_log.detail` and `deliveries.last_error`."""
_GOES: Final = frozenset({DeliveryStatus.PENDING, DeliveryStatus.DELIVERED})
"""How a delivery is born that reaches somebody."""


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class Birth:
    """How deliveries of one channel are born: status is that of those that go. A channel that does not go is one row
    with an empty target (data.md).
    """

    notification_id: UUID
    channel: str
    promise: Promise
    status: DeliveryStatus = DeliveryStatus.PENDING
    marketing: bool = False
    send_until: datetime | None = None

    def going(self, target: Target) -> NewDelivery:
        return self._delivery(target, self.status, None)

    def failed(self, target: Target, why: Unwritable) -> NewDelivery:
        return self._delivery(target, DeliveryStatus.FAILED, why.reason, why.detail[:MAX_DETAIL])

    def refused(self, target: Target, reason: Reason) -> NewDelivery:
        return self._delivery(target, DeliveryStatus.SKIPPED, reason)

    def skipped(self, reason: Reason) -> NewDelivery:
        return NewDelivery(
            DeliveryKey(self.notification_id, self.channel, b""),
            DeliveryStatus.SKIPPED,
            reason,
            self.promise,
            marketing=self.marketing,
        )

    def _delivery(
        self, target: Target, status: DeliveryStatus, reason: Reason | None, last_error: str | None = None
    ) -> NewDelivery:
        return NewDelivery(
            DeliveryKey(self.notification_id, self.channel, target.key),
            status,
            reason,
            self.promise,
            target.sealed,
            target.platform,
            target.app_id,
            last_error,
            self.marketing,
            self.send_until,
        )


@dataclass(frozen=True, slots=True)
class Planner:
    """Turns decisions into plans. log_id gives the ids of log rows, in order of time."""

    channels: Channels
    log_id: Callable[[], UUID] = new_id

    def decided(self, draft: Draft, decision: Decision, now: datetime, reservation: Reservation | None = None) -> Plan:
        """The rows of one decision: the draft's, or what counting has made of it."""
        notification, found = draft.notification, draft.type
        until = decision.defer_until
        if until is not None:
            return self._deferred(notification, decision, until)
        deliveries: list[NewDelivery] = []
        contents: list[NewContent] = []
        log: list[LogEntry] = []
        letters: list[Letter] = []
        for channel in decision.channels:
            birth = self._birth(notification, found, channel)
            log += self._logged(notification, channel, draft.duplicate_of)
            written = draft.content.get(channel.channel)
            if not isinstance(channel.verdict, Go):
                reason = channel.verdict.reason
                deliveries.append(birth.skipped(reason))
                if reason in LETTERED:
                    letters.append(Letter(channel.channel, reason, f"{notification.type} on {channel.channel}"))
                continue
            if isinstance(written, Unwritable):
                letters.append(Letter(channel.channel, written.reason, written.detail))
                log.append(self._entry(channel.channel, "fail", written.reason, written.detail))
                deliveries += [birth.failed(target, written) for target in channel.targets]
            elif written is not None:
                contents.append(written)
                deliveries += [birth.going(target) for target in channel.targets]
            deliveries += [birth.refused(refusal.target, refusal.reason) for refusal in channel.refusals]
        return Plan(
            notification,
            NotificationState.DECIDED,
            deliveries=tuple(deliveries),
            contents=tuple(contents),
            log=tuple(log),
            letters=tuple(letters),
            claim=_claim(notification, found, now) if contents else None,
            reservation=reservation,
        )

    def unknown_type(self, notification: Notification) -> Plan:
        """Decided as skipped: its type was taken away after it was accepted."""
        detail = f"no notification type {notification.type}: `ulak templates push` it"
        names = notification.channels or ("",)
        return Plan(
            notification,
            NotificationState.DECIDED,
            deliveries=tuple(
                Birth(notification.id, name, Promise.AT_MOST_ONCE).skipped(Reason.UNKNOWN_TYPE)
                for name in names
                if name
            ),
            log=tuple(self._entry(name, "skip", Reason.UNKNOWN_TYPE, detail) for name in names),
            letters=tuple(Letter(name, Reason.UNKNOWN_TYPE, detail) for name in names),
        )

    def _deferred(self, notification: Notification, decision: Decision, until: datetime) -> Plan:
        """DEFERRED as a whole. One that waits already and goes on waiting is not told again."""
        waits = notification.state is NotificationState.DEFERRED
        return Plan(
            notification,
            NotificationState.DEFERRED,
            log=() if waits else tuple(entry for c in decision.channels for entry in self._logged(notification, c)),
            due_at=until,
        )

    def _birth(self, notification: Notification, found: NotificationType, channel: ChannelDecision) -> Birth:
        spec = self.channels.find(channel.channel)
        if spec is None:
            return Birth(notification.id, channel.channel, Promise.AT_MOST_ONCE)
        return Birth(
            notification.id,
            channel.channel,
            found.promise(spec),
            # What nobody sends is there with this transaction (data.md: INBOX rows are born DELIVERED).
            status=DeliveryStatus.PENDING if spec.is_sent else DeliveryStatus.DELIVERED,
            marketing=found.category is Category.MARKETING,
            send_until=channel.send_until,
        )

    def _logged(
        self, notification: Notification, channel: ChannelDecision, first: UUID | None = None
    ) -> Iterable[LogEntry]:
        """What `ulak why` tells of one channel. Bulk and low log only what differs from the plain Go (data.md)."""
        plain = isinstance(channel.verdict, Go) and channel.redirected_from is None
        if not (plain and notification.message_class >= MessageClass.BULK):
            reason = None if isinstance(channel.verdict, Go) else channel.verdict.reason
            trail = (
                _trail(channel)
                if reason is not Reason.DUPLICATE_CONTENT or first is None
                else public_id(NOTIFICATION, first)
            )
            yield self._entry(channel.channel, _word(channel.verdict), reason, trail)
        for refusal in channel.refusals:
            yield self._entry(channel.channel, "skip", refusal.reason, f"{refusal.rule} skip", refusal.target.key)

    def _entry(
        self, channel: str, result: str, reason: Reason | None, detail: str, target_key: bytes = b""
    ) -> LogEntry:
        return LogEntry(self.log_id(), channel, target_key, result, reason, detail[:MAX_DETAIL])


def duplicate(plan: Plan, first: UUID, *, log_id: Callable[[], UUID] = new_id) -> Plan:
    """The plan of a notification whose content another one has sent within the window: what would go is skipped, and
    `ulak why` names the first (semantics.md section 1).
    """
    promises = {d.key.channel: d.promise for d in plan.deliveries if d.status in _GOES}
    named = public_id(NOTIFICATION, first)
    return replace(
        plan,
        deliveries=(
            *(d for d in plan.deliveries if d.key.channel not in promises),
            *(
                Birth(plan.notification.id, name, promise).skipped(Reason.DUPLICATE_CONTENT)
                for name, promise in promises.items()
            ),
        ),
        contents=(),
        log=(
            *(entry for entry in plan.log if entry.channel not in promises or entry.result == "redirect"),
            *(LogEntry(log_id(), name, b"", "skip", Reason.DUPLICATE_CONTENT, named) for name in promises),
        ),
        claim=None,
        is_duplicate=True,
    )


def _claim(notification: Notification, notification_type: NotificationType, now: datetime) -> Claim | None:
    window = window_of(notification, notification_type)
    return None if window is None else Claim(*window, now + notification_type.content_window)


def _word(verdict: Verdict) -> str:
    match verdict:
        case Go():
            return "go"
        case Skip():
            return "skip"
        case Defer():
            return "defer"
        case Redirect():
            return "redirect"


def _trail(channel: ChannelDecision) -> str:
    """`category go, preference skip, ...`; a redirection says from where or to where."""
    steps = _PLAIN_STEPS if channel.trail is CHAIN.plain_trail else _steps(channel.trail)
    if channel.redirected_from is not None:
        steps = f"instead of {channel.redirected_from}, {steps}"
    if isinstance(channel.verdict, Redirect):
        steps = f"to {channel.verdict.channel}, {steps}"
    if isinstance(channel.verdict, Defer):
        steps = f"until {channel.verdict.until.isoformat()}, {steps}"
    return steps


def _steps(trail: Iterable[RuleVerdict]) -> str:
    return ", ".join([f"{step.rule} {_word(step.verdict)}" for step in trail])


_PLAIN_STEPS: Final = _steps(CHAIN.plain_trail)
"""By far the most common, made once."""


def lettered(plans: Sequence[Plan]) -> dict[UUID, Letter]:
    """The first letter of each plan that has one."""
    return {plan.notification.id: plan.letters[0] for plan in plans if plan.letters}
