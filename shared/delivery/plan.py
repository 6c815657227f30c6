"""What one outcome does to its delivery: the table of states and of outcomes (semantics.md sections 2 and 4). Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from shared.core.cost import Cost
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    FileUnread,
    NotSent,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.reference import DeliveryKey
from shared.core.retry import GiveUp, RetryAt, next_attempt, snooze
from shared.delivery.row import DeliveryRow, Owed
from shared.wire.channel import Lane, MessageClass, Promise

S = DeliveryStatus

DEFAULT_THROTTLE_SEC: Final = 1.0
"""How long an account rests when the provider does not say."""
_ERROR_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of `delivery_log` of kind attempt."""

    result: str
    reason: Reason | None
    detail: str | None


class Record(NamedTuple):
    """Everything that one outcome changes; written in one transaction, published after it.

    attempt is what the row holds afterwards. next_attempt_at None leaves it. owed is published only if the row really
    became PENDING (a cancel may turn it to SKIPPED). drain_sec: how long the provider's account rests.
    """

    key: DeliveryKey
    status: DeliveryStatus
    attempt: int
    result: str
    provider: str
    reason: Reason | None = None
    next_attempt_at: datetime | None = None
    provider_message_id: str | None = None
    last_error: str | None = None
    owed: Owed | None = None
    dead_letter: bool = False
    target_gone: bool = False
    drain_sec: float | None = None
    log: LogEntry | None = None
    cost: Cost | None = None


def plan(  # noqa: C901, PLR0911  one case per outcome of the closed set
    row: DeliveryRow, outcome: Outcome, *, lane: Lane, provider: str, now: datetime, jitter: float
) -> Record:
    """The record of one attempt on a claimed row; `row` is as it was before the claim, jitter is in [0, 1)."""
    made = row.attempt + 1
    match outcome:
        case Accepted(message_id, cost):
            return _record(row, S.SENT, made, "accepted", provider, provider_message_id=message_id, cost=cost)
        case Transient(detail, not_processed):
            if row.promise is Promise.AT_MOST_ONCE and not not_processed:
                return _record(row, S.UNKNOWN, made, "transient", provider, reason=Reason.AMBIGUOUS, detail=detail)
            return _retry(row, "transient", lane, provider, now, jitter, detail)
        case Ambiguous(detail):
            if row.promise is Promise.AT_MOST_ONCE:
                return _record(row, S.UNKNOWN, made, "ambiguous", provider, reason=Reason.AMBIGUOUS, detail=detail)
            return _retry(row, "ambiguous", lane, provider, now, jitter, detail)
        case Throttled(scope, detail, retry_after_sec):
            rest_sec = DEFAULT_THROTTLE_SEC if retry_after_sec is None else retry_after_sec
            wait_sec = patience_sec(row, lane, now) if retry_after_sec is None else retry_after_sec
            drain_sec = rest_sec if scope is Scope.ACCOUNT else None
            return _snooze(row, "throttled", lane, provider, now, wait_sec, detail, drain_sec)
        case ProviderDown(detail):
            return _snooze(row, "provider_down", lane, provider, now, patience_sec(row, lane, now), detail, None)
        case NotSent(detail):
            return _give_back(row, provider, now, detail)
        case Permanent(detail, dead_letter):
            return _record(
                row,
                S.FAILED,
                made,
                "permanent",
                provider,
                reason=Reason.PERMANENT,
                detail=detail,
                dead_letter=dead_letter,
            )
        case FileUnread(detail, permanent):
            if not permanent:
                return _retry(row, "file_unread", lane, provider, now, jitter, detail)
            return _record(
                row,
                S.FAILED,
                made,
                "file_unread",
                provider,
                reason=Reason.ATTACHMENT,
                detail=detail,
                dead_letter=True,
            )
        case TargetGone(detail):
            return _record(
                row,
                S.FAILED,
                made,
                "target_gone",
                provider,
                reason=Reason.TARGET_GONE,
                detail=detail,
                target_gone=row.mode != "test",
            )


def patience_sec(row: DeliveryRow, lane: Lane, now: datetime) -> float:
    """How long a delivery waits whose provider did not say: a quarter of its age, within the lane's tiers.

    No attempt is counted, so nothing else would keep a target that always says "slow down" from being asked, and
    logged, every second of the message's life. The critical class stays at its shortest tier: a code lives minutes.
    """
    if lane.message_class is MessageClass.CRITICAL:
        return float(lane.tiers[0])
    age_sec = (now - row.created_at).total_seconds()
    return min(float(lane.tiers[-1]), max(float(lane.tiers[0]), age_sec / 4))


def _retry(
    row: DeliveryRow, result: str, lane: Lane, provider: str, now: datetime, jitter: float, detail: str
) -> Record:
    made = row.attempt + 1
    following = next_attempt(lane, attempts_made=made, expires_at=row.expires_at, now=now, jitter=jitter)
    if isinstance(following, RetryAt):
        return _again(row, made, result, provider, following, detail)
    return _given_up(row, made, result, provider, following, detail)


def _snooze(
    row: DeliveryRow,
    result: str,
    lane: Lane,
    provider: str,
    now: datetime,
    wait_sec: float,
    detail: str,
    drain_sec: float | None,
) -> Record:
    """Waits without an attempt counted."""
    following = snooze(lane, wait_sec=wait_sec, expires_at=row.expires_at, now=now)
    if isinstance(following, RetryAt):
        return _again(row, row.attempt, result, provider, following, detail, drain_sec=drain_sec)
    return _given_up(row, row.attempt, result, provider, following, detail, drain_sec=drain_sec)


def _give_back(row: DeliveryRow, provider: str, now: datetime, detail: str) -> Record:
    """As if it had never been claimed, for whoever reads the lane next. Nothing was tried, so nothing is logged."""
    owed = Owed(row.hint(attempt=row.attempt, not_before=None), None)
    return Record(
        key=row.key,
        status=S.PENDING,
        attempt=row.attempt,
        result="not_sent",
        provider=provider,
        next_attempt_at=min(now, row.next_attempt_at),
        last_error=detail,
        owed=owed,
    )


def _again(
    row: DeliveryRow,
    attempt: int,
    result: str,
    provider: str,
    following: RetryAt,
    detail: str,
    *,
    drain_sec: float | None = None,
) -> Record:
    return Record(
        key=row.key,
        status=S.PENDING,
        attempt=attempt,
        result=result,
        provider=provider,
        next_attempt_at=following.at,
        last_error=detail[:_ERROR_LIMIT],
        owed=Owed(row.hint(attempt=attempt, not_before=following.at), following.tier_sec),
        drain_sec=drain_sec,
        log=LogEntry(result, None, detail[:_ERROR_LIMIT]),
    )


def _given_up(
    row: DeliveryRow,
    attempt: int,
    result: str,
    provider: str,
    end: GiveUp,
    detail: str,
    *,
    drain_sec: float | None = None,
) -> Record:
    """EXHAUSTED is for a person to look at and keeps its content; EXPIRED is nobody's fault."""
    exhausted = end.reason is Reason.EXHAUSTED
    return Record(
        key=row.key,
        status=S.FAILED if exhausted else S.SKIPPED,
        attempt=attempt,
        result=result,
        provider=provider,
        reason=end.reason,
        last_error=detail[:_ERROR_LIMIT],
        dead_letter=exhausted,
        drain_sec=drain_sec,
        log=LogEntry(result, end.reason, detail[:_ERROR_LIMIT]),
    )


def _record(
    row: DeliveryRow,
    status: DeliveryStatus,
    attempt: int,
    result: str,
    provider: str,
    *,
    reason: Reason | None = None,
    provider_message_id: str | None = None,
    detail: str | None = None,
    dead_letter: bool = False,
    target_gone: bool = False,
    cost: Cost | None = None,
) -> Record:
    # Bulk lanes log only what differs from plain success, which the row tells by itself (data.md, delivery_log).
    plain = status is S.SENT and row.message_class >= MessageClass.BULK
    cut = None if detail is None else detail[:_ERROR_LIMIT]
    return Record(
        key=row.key,
        status=status,
        attempt=attempt,
        result=result,
        provider=provider,
        reason=reason,
        provider_message_id=provider_message_id,
        last_error=cut,
        dead_letter=dead_letter,
        target_gone=target_gone,
        log=None if plain else LogEntry(result, reason, cut),
        cost=cost,
    )
