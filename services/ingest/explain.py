"""What happened to a notification, and why, in words: pure, from its rows to dated sentences in order."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from services.ingest.record import DeliveryRecord, LogRecord, NotificationRecord
from shared.core.identifier import NOTIFICATION, public_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason

REASONS: Final[Mapping[str, str]] = {
    Reason.CANCELLED: "it was cancelled",
    Reason.EXPIRED: "its time to live had passed",
    Reason.SUPERSEDED: "a newer code for the same phone and purpose took its place",
    Reason.NO_CONSENT: "the user has not consented to marketing on this channel",
    Reason.PREFERENCE: "the user switched this kind of message off on this channel",
    Reason.SUPPRESSED: "the address is suppressed",
    Reason.DUPLICATE_CONTENT: "the user was told the same thing already",
    Reason.CAPPED: "the user has had as many messages as the cap allows",
    Reason.NO_TARGET: "the user has no address or device for this channel",
    Reason.NO_TEMPLATE: "there is no active template for this channel and language",
    Reason.UNKNOWN_TYPE: "its notification type no longer exists",
    Reason.QUIET_HOURS: "it would have arrived in the user's quiet hours",
    Reason.SCHEDULED: "the caller asked for a later time",
    Reason.NOT_ON_ALLOW_LIST: "the API key is a team key and the recipient is not on its allow-list",
    Reason.EXHAUSTED: "every attempt failed",
    Reason.PERMANENT: "the provider refuses it for good",
    Reason.TARGET_GONE: "the address or device no longer exists",
    Reason.RENDER: "its template could not be filled in",
    Reason.CONFIG: "the provider is configured wrongly",
    Reason.UNDELIVERED: "the provider could not deliver it",
    Reason.BOUNCED: "it bounced",
    Reason.AMBIGUOUS: "nobody knows whether the provider took it, and it may not be sent twice",
    Reason.UNSEALABLE: "its stored content cannot be opened with this key ring",
    Reason.CLOSED: "no receipt came in time",
}
"""Every reason as a clause after "because"."""

_OUTCOMES: Final[Mapping[str, str]] = {
    "accepted": "{by} accepted it",
    "transient": "{by} could not take it now",
    "throttled": "{by} asked to slow down",
    "permanent": "{by} refused it for good",
    "targetgone": "{by} says that the address or device no longer exists",
    "providerdown": "{by} was not usable",
    "ambiguous": "nobody knows whether {by} took it",
    "notsent": "it was not put on the wire",
}
_RECEIPTS: Final[Mapping[str, str]] = {
    "progress": "{by} reports progress",
    "delivered": "{by} reports that it was delivered",
    "undelivered": "{by} reports that it could not be delivered",
}
_VERDICTS: Final[Mapping[str, str]] = {
    "go": "will be sent",
    "skip": "will not be sent",
    "fail": "cannot be sent",
    "defer": "is held back",
    "redirect": "goes to another channel",
}
_STATUS_WORDS: Final[Mapping[str, str]] = {
    DeliveryStatus.PENDING: "waiting",
    DeliveryStatus.SENDING: "being sent",
    DeliveryStatus.SENT: "sent",
    DeliveryStatus.DELIVERED: "delivered",
    DeliveryStatus.FAILED: "failed",
    DeliveryStatus.SKIPPED: "not sent",
    DeliveryStatus.UNKNOWN: "unknown",
}


_OPEN: Final = frozenset({DeliveryStatus.PENDING, DeliveryStatus.SENDING})


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence and when it became true. result is the machine-readable word behind it."""

    at: datetime
    text: str
    result: str
    channel: str | None = None
    reason: str | None = None

    def body(self) -> dict[str, Any]:
        body = {"at": self.at, "text": self.text, "channel": self.channel, "result": self.result, "reason": self.reason}
        return {name: value for name, value in body.items() if value is not None}


def explain(
    record: NotificationRecord, deliveries: Sequence[DeliveryRecord], log: Sequence[LogRecord]
) -> tuple[Step, ...]:
    """Every decision and attempt, oldest first; ends with what each open delivery waits for.

    Bulk lanes log only what differs from the plain success (data.md), so a delivery without a logged attempt tells its
    own outcome.
    """
    targets = {(delivery.channel, delivery.target_key): delivery.target for delivery in deliveries}
    present = [(delivery, step) for delivery in deliveries for step in _present(delivery, log)]
    happened = [
        *(_logged(entry, targets.get((entry.channel, entry.target_key))) for entry in log),
        *_cancelled(record),
        *(step for delivery, step in present if delivery.status not in _OPEN),
    ]
    waiting = [step for delivery, step in present if delivery.status in _OPEN]
    # Acceptance and decision may share a millisecond, and a row may have changed before its attempt's line was cut:
    # the beginning comes first and what is open last, whatever their clocks say.
    return (
        *_beginning(record),
        *sorted(happened, key=lambda step: step.at),
        *sorted(waiting, key=lambda step: step.at),
    )


def _at(step: Step) -> datetime:
    return step.at


def summary(record: NotificationRecord, deliveries: Sequence[DeliveryRecord]) -> str:
    """Where it stands, in one sentence."""
    if not deliveries:
        match record.state:
            case NotificationState.DEFERRED:
                return f"It waits until {_time(record.send_at or record.expires_at)}, nothing has been sent."
            case NotificationState.CANCELLED:
                return "It was cancelled before anything was sent."
            case NotificationState.DECIDED:
                return "It was decided, and nothing was to be sent."
            case _:
                return "It is accepted and waits to be decided."
    counts = Counter(delivery.status for delivery in deliveries)
    told = ", ".join(f"{counts[status]} {_STATUS_WORDS[status]}" for status in _STATUS_WORDS if counts[status])
    one = len(deliveries) == 1
    return f"{'One delivery' if one else f'{len(deliveries)} deliveries'}: {told}."


def explain_body(
    record: NotificationRecord, deliveries: Sequence[DeliveryRecord], log: Sequence[LogRecord]
) -> dict[str, Any]:
    """The answer of `GET /internal/v1/notifications/{id}/explain`."""
    return {
        "notificationId": public_id(NOTIFICATION, record.id),
        "state": record.state,
        "summary": summary(record, deliveries),
        "steps": [step.body() for step in explain(record, deliveries, log)],
    }


def _beginning(record: NotificationRecord) -> Iterator[Step]:
    whom = "" if record.user_id is None else f" for user {record.user_id}"
    mode = "" if record.mode == "live" else f" with a {record.mode} key"
    yield Step(
        record.created_at,
        f"Accepted as {record.type}{whom}, event {record.event_id}, class {record.message_class.label}{mode}; "
        f"it lives until {_time(record.expires_at)}.",
        "accepted",
    )
    if record.send_at is not None:
        yield Step(
            record.created_at,
            f"Held until {_time(record.send_at)}, because {REASONS[Reason.SCHEDULED]}.",
            "defer",
            reason=Reason.SCHEDULED,
        )


def _cancelled(record: NotificationRecord) -> Iterator[Step]:
    if record.cancelled_at is not None:
        yield Step(record.cancelled_at, "Cancelled; nothing new is started.", "cancelled")


def _logged(entry: LogRecord, target: str | None) -> Step:
    what = _named(entry.channel, target)
    by = entry.provider or "the provider"
    attempt = f", attempt {entry.attempt}" if entry.attempt else ""  # 0: nothing was counted yet
    key = entry.result.lower().replace("_", "")
    match entry.kind:
        case "verdict":
            why = f" ({entry.detail})" if entry.result == "fail" and entry.detail else ""
            text = f"{what} {_VERDICTS.get(key, entry.result)}{_because(entry.reason)}{why}."
        case "attempt":
            text = f"{what}{attempt}: {_OUTCOMES.get(key, entry.result).format(by=by)}{_because(entry.reason)}."
        case "receipt":
            text = f"{what}{attempt}: {_RECEIPTS.get(key, entry.result).format(by=by)}{_because(entry.reason)}."
        case "duplicate":
            text = f"The same event came again ({entry.result}); nothing was sent for it."
        case "operator":
            text = f"{what}: an operator or the caller asked for `{entry.result}`{_because(entry.reason)}."
        case _:
            text = f"{what}: {entry.kind} {entry.result}{_because(entry.reason)}."
    return Step(entry.at, text, entry.result, entry.channel or None, entry.reason)


def _present(delivery: DeliveryRecord, log: Sequence[LogRecord]) -> Iterator[Step]:
    """What the log does not tell: a plain outcome that is not logged, and what an open delivery waits for."""
    what = _named(delivery.channel, delivery.target)
    told = {entry.kind for entry in log if (entry.channel, entry.target_key) == (delivery.channel, delivery.target_key)}
    by = "" if delivery.provider is None else f" by {delivery.provider}"
    match delivery.status:
        case DeliveryStatus.PENDING:
            text = f"{what} waits to be sent, at {_time(delivery.next_attempt_at)} at the earliest."
        case DeliveryStatus.SENDING:
            stop = "; it will not be tried again" if delivery.cancel_requested else ""
            text = f"{what} is being sent{by}{stop}."
        case DeliveryStatus.SKIPPED if not told & {"verdict", "operator", "attempt"}:
            text = f"{what} was not sent{_because(delivery.reason)}."
        case DeliveryStatus.SENT | DeliveryStatus.DELIVERED | DeliveryStatus.FAILED | DeliveryStatus.UNKNOWN if (
            "attempt" not in told
        ):
            text = f"{what}: {_STATUS_WORDS[delivery.status]}{by}{_because(delivery.reason)}."
        case _:
            return
    yield Step(delivery.updated_at, text, delivery.status.lower(), delivery.channel, delivery.reason)


def _named(channel: str, target: str | None) -> str:
    return f"{channel or 'It'}{'' if target is None else f' to {target}'}"


def _because(reason: str | None) -> str:
    return "" if reason is None else f", because {REASONS.get(reason, reason)}"


def _time(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="seconds")
