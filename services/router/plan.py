"""From a decision and the written content to the rows that say so. Pure but for the ids of log rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from services.router.notification import (
    LETTERED,
    Letter,
    LogEntry,
    NewContent,
    NewDelivery,
    Notification,
    Plan,
)
from shared.core.catalogue import NotificationType
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.decision.chain import ChannelDecision, Decision
from shared.decision.facts import Target
from shared.decision.verdict import Defer, Go, Redirect, Skip, Verdict
from shared.wire.channel import Channels, MessageClass, Promise

MAX_DETAIL: Final = 256
"""Width of `delivery_log.detail` and `deliveries.last_error`."""


@dataclass(frozen=True, slots=True)
class Unwritable:
    """Content that cannot be had for this notification, ever: RENDER or UNSEALABLE; detail holds no personal data."""

    reason: Reason
    detail: str


Written = NewContent | Unwritable


@dataclass(frozen=True, slots=True)
class Planner:
    """Turns decisions into plans. log_id gives the ids of log rows, in order of time."""

    channels: Channels
    log_id: Callable[[], UUID] = new_id

    def decided(
        self,
        notification: Notification,
        notification_type: NotificationType,
        decision: Decision,
        content: Mapping[str, Written],
    ) -> Plan:
        """The rows of one decision; `content` has an entry for every channel that goes."""
        until = decision.defer_until
        if until is not None:
            return self._deferred(notification, decision, until)
        deliveries: list[NewDelivery] = []
        contents: list[NewContent] = []
        log: list[LogEntry] = []
        letters: list[Letter] = []
        for channel in decision.channels:
            promise = self._promise(notification_type, channel.channel)
            log += self._logged(notification, channel)
            written = content.get(channel.channel)
            if not isinstance(channel.verdict, Go):
                reason = _reason(channel.verdict)
                deliveries.append(_skipped(notification, channel.channel, reason, promise))
                if reason in LETTERED:
                    letters.append(Letter(channel.channel, reason, f"{notification.type} on {channel.channel}"))
                continue
            if isinstance(written, Unwritable):
                letters.append(Letter(channel.channel, written.reason, written.detail))
                log.append(self._entry(channel.channel, "fail", written.reason, written.detail))
                deliveries += [
                    _delivery(notification, channel.channel, target, promise, failed=written)
                    for target in channel.targets
                ]
            elif written is not None:
                contents.append(written)
                deliveries += [_delivery(notification, channel.channel, target, promise) for target in channel.targets]
            deliveries += [
                _delivery(notification, channel.channel, refusal.target, promise, refused=refusal.reason)
                for refusal in channel.refusals
            ]
        return Plan(
            notification,
            NotificationState.DECIDED,
            deliveries=tuple(deliveries),
            contents=tuple(contents),
            log=tuple(log),
            letters=tuple(letters),
        )

    def unknown_type(self, notification: Notification) -> Plan:
        """Decided as skipped: its type was taken away after it was accepted."""
        detail = f"no notification type {notification.type}: `ulak templates push` it"
        names = notification.channels or ("",)
        return Plan(
            notification,
            NotificationState.DECIDED,
            deliveries=tuple(
                _skipped(notification, name, Reason.UNKNOWN_TYPE, Promise.AT_MOST_ONCE) for name in names if name
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

    def _promise(self, notification_type: NotificationType, channel: str) -> Promise:
        if channel not in self.channels:
            return Promise.AT_MOST_ONCE
        return notification_type.promise(self.channels.spec(channel))

    def _logged(self, notification: Notification, channel: ChannelDecision) -> Iterable[LogEntry]:
        """What `ulak why` tells of one channel. Bulk and low log only what differs from the plain Go (data.md)."""
        plain = isinstance(channel.verdict, Go) and channel.redirected_from is None
        if not (plain and notification.message_class >= MessageClass.BULK):
            reason = None if isinstance(channel.verdict, Go) else _reason(channel.verdict)
            yield self._entry(channel.channel, _word(channel.verdict), reason, _trail(channel))
        for refusal in channel.refusals:
            yield self._entry(channel.channel, "skip", refusal.reason, f"{refusal.rule} skip", refusal.target.key)

    def _entry(
        self, channel: str, result: str, reason: Reason | None, detail: str, target_key: bytes = b""
    ) -> LogEntry:
        return LogEntry(self.log_id(), channel, target_key, result, reason, detail[:MAX_DETAIL])


def _delivery(
    notification: Notification,
    channel: str,
    target: Target,
    promise: Promise,
    *,
    failed: Unwritable | None = None,
    refused: Reason | None = None,
) -> NewDelivery:
    status, reason = DeliveryStatus.PENDING, None
    if failed is not None:
        status, reason = DeliveryStatus.FAILED, failed.reason
    elif refused is not None:
        status, reason = DeliveryStatus.SKIPPED, refused
    return NewDelivery(
        key=DeliveryKey(notification.id, channel, target.key),
        status=status,
        reason=reason,
        promise=promise,
        address_sealed=target.sealed,
        platform=target.platform,
        app_id=target.app_id,
        last_error=None if failed is None else failed.detail[:MAX_DETAIL],
    )


def _skipped(notification: Notification, channel: str, reason: Reason, promise: Promise) -> NewDelivery:
    """A channel that does not go is one row with an empty target (data.md)."""
    return NewDelivery(DeliveryKey(notification.id, channel, b""), DeliveryStatus.SKIPPED, reason, promise)


def _reason(verdict: Skip | Defer | Redirect) -> Reason:
    return verdict.reason


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
    if isinstance(channel.verdict, Go) and channel.redirected_from is None:
        return _plain_trail(tuple([step.rule for step in channel.trail]))
    steps = [f"{step.rule} {_word(step.verdict)}" for step in channel.trail]
    if channel.redirected_from is not None:
        steps.insert(0, f"instead of {channel.redirected_from}")
    if isinstance(channel.verdict, Redirect):
        steps.insert(0, f"to {channel.verdict.channel}")
    if isinstance(channel.verdict, Defer):
        steps.insert(0, f"until {channel.verdict.until.isoformat()}")
    return ", ".join(steps)


@lru_cache(maxsize=64)
def _plain_trail(rules: tuple[str, ...]) -> str:
    return ", ".join(f"{rule} go" for rule in rules)


def lettered(plans: Sequence[Plan]) -> dict[UUID, Letter]:
    """The first letter of each plan that has one."""
    return {plan.notification.id: plan.letters[0] for plan in plans if plan.letters}
