"""What an attempt does to its row: one mail, an outcome per recipient (semantics.md, Model A). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from services.relay.email.row import REFUSED, SENT, EmailRow, refusal
from shared.core.lifecycle import REPAIRABLE, Reason
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    FileUnread,
    NotSent,
    Outcome,
    Permanent,
    ProviderDown,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.retry import Backoff, GiveUp, retry_at
from shared.wire.channel import MessageClass

_ERROR_LIMIT: Final = 256
_NOBODY: Final[Mapping[int, Reason]] = {}
_KEPT: Final = REPAIRABLE | {Reason.UNSEALABLE}
"""FAILED for what a person can mend: the parameters stay, so that the row can be put in line again (seed 001)."""


class Record(NamedTuple):
    """What is written to a claimed row. attempt_count, outcomes: as the row has them afterwards; None leaves a column.

    reason is set for FAILED alone. cleared: nobody is sent this again, so the parameters go. message_class: the class
    that the row belongs to from now on.
    """

    row: EmailRow
    status: str
    attempt_count: int
    outcomes: Mapping[int, str]
    reason: Reason | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    provider: str | None = None
    provider_message_id: str | None = None
    cleared: bool = False
    message_class: MessageClass | None = None


def refused(row: EmailRow, reason: Reason, detail: str | None = None) -> Record:
    """FAILED without an attempt: what can never be sent, or not as it is."""
    return Record(
        row,
        "FAILED",
        row.attempt_count,
        row.outcomes,
        reason=reason,
        error=_error(reason, detail),
        cleared=reason not in _KEPT,
    )


def put_back(row: EmailRow, detail: str | None = None, *, until: datetime | None = None) -> Record:
    """As if it had never been claimed; until: not due before."""
    return Record(row, "PENDING", row.attempt_count, row.outcomes, error=_cut(detail), next_attempt_at=until)


def lowered(row: EmailRow, to: MessageClass) -> Record:
    """For the loop of its type's class: a priority may lower a message below its type's, never raise it."""
    return put_back(row)._replace(message_class=to)


def after_attempt(
    row: EmailRow,
    answers: Mapping[int, Outcome],
    *,
    recipients: int,
    left_out: Mapping[int, Reason] = _NOBODY,
    provider: str,
    expires_at: datetime,
    backoff: Backoff,
    now: datetime,
    jitter: float,
) -> Record:
    """The record of one mail: answers by recipient's position, of those it went to.

    The row has outcomes of the mail's recipients alone. left_out: positions that it never goes to. SENT once all have
    it; FAILED once nobody is left and somebody was refused, or attempts or time are over; PENDING while some may still
    get it. An attempt counts if it leaves somebody whose failure may be the mail's fault: not if they were throttled,
    or the provider is down.
    """
    outcomes = {
        **row.outcomes,
        **{position: f"{REFUSED} {reason}" for position, reason in left_out.items()},
        **{position: told for position, outcome in answers.items() if (told := _final(outcome)) is not None},
    }
    accepted = [outcome for outcome in answers.values() if isinstance(outcome, Accepted)]
    taken = Record(
        row,
        "PENDING",
        row.attempt_count,
        outcomes,
        provider=provider if answers else None,
        provider_message_id=next((outcome.message_id for outcome in accepted if outcome.message_id), None),
    )
    unread = next((each for each in answers.values() if isinstance(each, FileUnread) and each.permanent), None)
    if unread is not None:  # of the whole mail, so no recipient's outcome: all of them get it once the file is there
        return refused(row, Reason.ATTACHMENT, unread.detail)._replace(attempt_count=row.attempt_count + 1)
    left = [answers[position] for position in sorted(answers) if position not in outcomes]
    if len(outcomes) == recipients:
        made = row.attempt_count + 1 if answers else row.attempt_count
        return _ended(taken._replace(attempt_count=made), recipients)
    return _again(taken, left, recipients, expires_at=expires_at, backoff=backoff, now=now, jitter=jitter)


def patience_sec(row: EmailRow, backoff: Backoff, now: datetime) -> float:
    """How long a mail waits whose provider did not say: a quarter of its age, within the back-off's delays.

    As the workers' (shared/delivery/plan.py): no attempt is counted, so nothing else would keep it from being tried
    every few seconds of its life. The critical class is tried at the shortest delay.
    """
    shortest, longest = backoff.delays_sec[0], backoff.delays_sec[-1]
    if row.message_class is MessageClass.CRITICAL:
        return shortest
    return min(longest, max(shortest, (now - row.created_at).total_seconds() / 4))


def _final(outcome: Outcome) -> str | None:
    """What is written for a recipient who is done with; None for one who is not."""
    match outcome:
        case Accepted():
            return SENT
        case Permanent(detail):
            return f"{REFUSED} {Reason.PERMANENT}: {detail}"
        case TargetGone(detail):
            return f"{REFUSED} {Reason.TARGET_GONE}: {detail}"
        case _:
            return None


def _ended(record: Record, recipients: int) -> Record:
    noes = [record.outcomes[position] for position in sorted(record.outcomes) if record.outcomes[position] != SENT]
    if not noes:
        return record._replace(status="SENT", cleared=True)
    reason, detail = refusal(noes[0])
    told = detail if recipients == 1 else f"{len(noes)} of {recipients} recipients refused: {detail or reason}"
    return record._replace(status="FAILED", reason=reason, error=_error(reason, told), cleared=True)


def _again(
    record: Record,
    left: Sequence[Outcome],
    recipients: int,
    *,
    expires_at: datetime,
    backoff: Backoff,
    now: datetime,
    jitter: float,
) -> Record:
    """Somebody is left: later, unless attempts or time are over."""
    detail = next((outcome.detail for outcome in left if not isinstance(outcome, Accepted)), "nothing was tried")
    tried = any(isinstance(outcome, (Transient, Ambiguous, FileUnread)) for outcome in left)
    asked = max((wait for outcome in left if (wait := _asked_wait_sec(outcome)) is not None), default=0.0)
    earliest = now + timedelta(seconds=asked)
    if tried:
        made = record.attempt_count + 1
        record = record._replace(attempt_count=made)
        following = retry_at(backoff, attempts_made=made, expires_at=expires_at, now=now, jitter=jitter)
        at = following if isinstance(following, GiveUp) else max(following, earliest)
    elif all(isinstance(outcome, NotSent) for outcome in left):
        return record._replace(error=_cut(detail))
    else:
        at = earliest if asked else now + timedelta(seconds=patience_sec(record.row, backoff, now))
    if not isinstance(at, GiveUp) and at >= expires_at:
        at = GiveUp(Reason.EXPIRED)
    if not isinstance(at, GiveUp):
        return record._replace(error=_cut(detail), next_attempt_at=at)
    told = detail if recipients == 1 else f"{len(left)} of {recipients} recipients not reached: {detail}"
    return record._replace(
        status="FAILED", reason=at.reason, error=_error(at.reason, told), cleared=at.reason not in _KEPT
    )


def _asked_wait_sec(outcome: Outcome) -> float | None:
    return outcome.retry_after_sec if isinstance(outcome, Throttled) else None


def _error(reason: Reason, detail: str | None) -> str:
    return _cut(f"{reason}: {detail}" if detail else str(reason)) or ""


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_ERROR_LIMIT]


def provider_is_down(outcomes: Iterable[Outcome]) -> bool:
    """Whether nothing but that was heard: then the rest of the queue need not be asked right now."""
    heard = list(outcomes)
    return bool(heard) and all(isinstance(outcome, ProviderDown) for outcome in heard)
