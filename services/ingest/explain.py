"""What happened to a notification, and why: from its rows to dated sentences in order, in a language. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from services.ingest.record import DeliveryRecord, LogRecord, NotificationRecord
from shared.core.identifier import NOTIFICATION, public_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.decision.phrase import Phrases
from shared.decision.step import Step
from shared.decision.wording import Language, because, moment, to_mend

_OPEN: Final = frozenset({DeliveryStatus.PENDING, DeliveryStatus.SENDING})


def explain(
    record: NotificationRecord, deliveries: Sequence[DeliveryRecord], log: Sequence[LogRecord], language: Language
) -> tuple[Step, ...]:
    """Every decision and attempt, oldest first; ends with what each open delivery waits for.

    Bulk lanes log only what differs from the plain success (data.md), so a delivery without a logged attempt tells its
    own outcome.
    """
    phrases = language.phrases
    targets = {(delivery.channel, delivery.target_key): delivery.target for delivery in deliveries}
    present = [(delivery, step) for delivery in deliveries for step in _present(delivery, log, phrases)]
    happened = [
        *(_logged(entry, targets.get((entry.channel, entry.target_key)), phrases) for entry in log),
        *_cancelled(record, phrases),
        *(step for delivery, step in present if delivery.status not in _OPEN),
    ]
    waiting = [step for delivery, step in present if delivery.status in _OPEN]
    # Acceptance and decision may share a millisecond, and a row may have changed before its attempt's line was cut:
    # the beginning comes first and what is open last, whatever their clocks say.
    return (
        *_beginning(record, phrases),
        *sorted(happened, key=lambda step: step.at),
        *sorted(waiting, key=lambda step: step.at),
    )


def summary(record: NotificationRecord, deliveries: Sequence[DeliveryRecord], language: Language) -> str:
    """Where it stands, in one sentence."""
    phrases = language.phrases
    if not deliveries:
        match record.state:
            case NotificationState.DEFERRED:
                until = record.due_at or record.send_at or record.expires_at
                return phrases.stands_deferred.format(until=moment(until))
            case NotificationState.CANCELLED:
                return phrases.stands_cancelled
            case NotificationState.DECIDED:
                return phrases.stands_decided
            case _:
                return phrases.stands_accepted
    counts = Counter(delivery.status for delivery in deliveries)
    told = ", ".join(f"{counts[status]} {word}" for status, word in phrases.statuses.items() if counts[status])
    sentence = phrases.one_delivery if len(deliveries) == 1 else phrases.many_deliveries
    return sentence.format(count=len(deliveries), told=told)


def explain_body(
    record: NotificationRecord, deliveries: Sequence[DeliveryRecord], log: Sequence[LogRecord], language: Language
) -> dict[str, Any]:
    """The answer of `GET /internal/v1/notifications/{id}/explain`."""
    return {
        "notificationId": public_id(NOTIFICATION, record.id),
        "state": record.state,
        "summary": summary(record, deliveries, language),
        "steps": [step.body() for step in explain(record, deliveries, log, language)],
    }


def _beginning(record: NotificationRecord, phrases: Phrases) -> Iterator[Step]:
    text = phrases.accepted.format(
        type=record.type,
        whom="" if record.user_id is None else phrases.for_user.format(user=record.user_id),
        event=record.event_id,
        message_class=record.message_class.label,
        key="" if record.mode == "live" else phrases.with_key.format(mode=record.mode),
        until=moment(record.expires_at),
    )
    yield Step(record.created_at, text, "accepted")
    if record.send_at is not None:
        text = phrases.held.format(until=moment(record.send_at), why=because(Reason.SCHEDULED, phrases))
        yield Step(record.created_at, text, "defer", reason=Reason.SCHEDULED)


def _cancelled(record: NotificationRecord, phrases: Phrases) -> Iterator[Step]:
    if record.cancelled_at is not None:
        yield Step(record.cancelled_at, phrases.cancelled, "cancelled")


def _logged(entry: LogRecord, target: str | None, phrases: Phrases) -> Step:
    what, why = _named(entry.channel, target, phrases), because(entry.reason, phrases)
    key = entry.result.lower().replace("_", "")
    match entry.kind:
        case "verdict":
            # A duplicate's names the first one, a pause's who has paused what.
            told = entry.result == "fail" or entry.reason in {Reason.DUPLICATE_CONTENT, Reason.PAUSED}
            detail = f" ({entry.detail})" if told and entry.detail else ""
            verdict = phrases.verdicts.get(key, entry.result)
            text = phrases.verdict.format(what=what, verdict=verdict, why=why, detail=detail)
            text += to_mend(entry.reason, None if detail else entry.detail, phrases)
        case "attempt" | "receipt":
            words = phrases.outcomes if entry.kind == "attempt" else phrases.receipts
            outcome = words.get(key, entry.result).format(by=entry.provider or phrases.provider)
            # 0: nothing was counted yet
            attempt = phrases.attempt.format(number=entry.attempt) if entry.attempt else ""
            text = phrases.attempted.format(what=what, attempt=attempt, outcome=outcome, why=why)
            text += to_mend(entry.reason, entry.detail, phrases)
        case "route":
            sentence = phrases.routed if entry.result == "to" else phrases.unroutable
            text = sentence.format(what=what, detail=entry.detail)
        case "duplicate":
            text = phrases.duplicate.format(result=entry.result)
        case "operator":
            detail = f" ({entry.detail})" if entry.detail else ""
            text = phrases.asked.format(what=what, result=entry.result, detail=detail, why=why)
        case _:
            text = phrases.anything.format(what=what, kind=entry.kind, result=entry.result, why=why)
    return Step(entry.at, text, entry.result, entry.channel or None, entry.reason)


def _present(delivery: DeliveryRecord, log: Sequence[LogRecord], phrases: Phrases) -> Iterator[Step]:
    """What the log does not tell: a plain outcome that is not logged, and what an open delivery waits for."""
    what, why = _named(delivery.channel, delivery.target, phrases), because(delivery.reason, phrases)
    told = {entry.kind for entry in log if (entry.channel, entry.target_key) == (delivery.channel, delivery.target_key)}
    by = "" if delivery.provider is None else phrases.by_provider.format(provider=delivery.provider)
    match delivery.status:
        case DeliveryStatus.PENDING:
            text = _pending(what, delivery, phrases)
        case DeliveryStatus.SENDING:
            stop = phrases.no_more if delivery.cancel_requested else ""
            text = phrases.sending.format(what=what, by=by, stop=stop)
        case DeliveryStatus.SKIPPED if not told & {"verdict", "operator", "attempt"}:
            text = phrases.not_sent.format(what=what, why=why)
        case DeliveryStatus.SENT | DeliveryStatus.DELIVERED | DeliveryStatus.FAILED | DeliveryStatus.UNKNOWN if (
            "attempt" not in told
        ):
            text = phrases.outcome.format(
                what=what, status=phrases.statuses[DeliveryStatus(delivery.status)], by=by, why=why
            ) + to_mend(delivery.reason, delivery.detail, phrases)
        case _:
            return
    yield Step(delivery.updated_at, text, delivery.status.lower(), delivery.channel, delivery.reason)


def _pending(what: str, delivery: DeliveryRecord, phrases: Phrases) -> str:
    pause = delivery.pause
    if pause is None:
        return phrases.pending.format(what=what, at=moment(delivery.next_attempt_at))
    return phrases.paused.format(
        what=what,
        paused=phrases.pauses[pause.kind].format(name=pause.name),
        since=moment(pause.paused_at),
        by=pause.paused_by,
        note=pause.note,
    )


def _named(channel: str, target: str | None, phrases: Phrases) -> str:
    what = channel or phrases.it
    return what if target is None else phrases.to_target.format(channel=what, target=target)
