"""What a replay may do about a dead letter, seen how its delivery stands now (semantics.md, section 9). Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.core.lifecycle import REPAIRABLE, DeliveryStatus, Reason


class Kind(StrEnum):
    """What a letter asks of a person. EXHAUSTED: mend what was down, replay. FAILED: mend what it failed by, replay.
    POISON: a message that could not be worked on at all; mend who wrote it or who reads it.
    """

    EXHAUSTED = "exhausted"
    FAILED = "failed"
    POISON = "poison"


def kind_of(error_class: str, *, in_kafka_alone: bool) -> Kind:
    if in_kafka_alone:
        return Kind.POISON
    return Kind.EXHAUSTED if error_class == Reason.EXHAUSTED else Kind.FAILED


class Verdict(StrEnum):
    """What becomes of a letter in a replay, as it is stored, counted and shown: the whole vocabulary."""

    REPLAYED = "replayed"
    EXPIRED = "expired"
    SENT = "sent"
    UNKNOWN = "unknown"
    UNDER_WAY = "under_way"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    SUPPRESSED = "suppressed"
    SUPERSEDED = "superseded"
    PERMANENT = "permanent"
    DECIDED = "decided"
    NO_CONTENT = "no_content"
    GONE = "gone"
    UNREADABLE = "unreadable"


WORDS: Final[dict[Verdict, str]] = {
    Verdict.REPLAYED: "on the way again",
    Verdict.EXPIRED: "its time to live is over: skipped as expired",
    Verdict.SENT: "was sent meanwhile",
    Verdict.UNKNOWN: "may have been sent: the provider's answer was lost",
    Verdict.UNDER_WAY: "is on its way already",
    Verdict.SKIPPED: "was skipped meanwhile",
    Verdict.CANCELLED: "was cancelled",
    Verdict.SUPPRESSED: "its address is suppressed",
    Verdict.SUPERSEDED: "a newer code has taken its place",
    Verdict.PERMANENT: "was refused for good: sending it again cannot help (`replay close` ends it)",
    Verdict.DECIDED: "its decision is written: a new notification is needed (`replay close` ends it)",
    Verdict.NO_CONTENT: "its content is gone",
    Verdict.GONE: "its row or message is gone: older than what is kept",
    Verdict.UNREADABLE: "its message was not kept whole: only its source can send it again",
}

STAYS_OPEN: Final = frozenset({Verdict.PERMANENT, Verdict.DECIDED})
"""A person has to look and close it; all others are ended by the run that found them."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a dead letter's delivery stands. suppressed: of an address that may not be sent to. superseded: a login code
    that a newer one has replaced. has_content: what it says is still kept.
    """

    status: DeliveryStatus
    reason: Reason | None
    expires_at: datetime
    cancelled: bool
    suppressed: bool
    superseded: bool
    has_content: bool


_ELSEWHERE: Final = {
    DeliveryStatus.SENT: Verdict.SENT,
    DeliveryStatus.DELIVERED: Verdict.SENT,
    DeliveryStatus.UNKNOWN: Verdict.UNKNOWN,
    DeliveryStatus.PENDING: Verdict.UNDER_WAY,
    DeliveryStatus.SENDING: Verdict.UNDER_WAY,
    DeliveryStatus.SKIPPED: Verdict.SKIPPED,
}


def verdict(standing: Standing | None, now: datetime) -> Verdict:  # noqa: PLR0911  one per row of the table
    """REPLAYED or EXPIRED change the row; every other verdict leaves it. None: there is no row any more."""
    if standing is None:
        return Verdict.GONE
    if standing.status is not DeliveryStatus.FAILED:
        return _ELSEWHERE[standing.status]
    if standing.reason not in REPAIRABLE:
        return Verdict.PERMANENT
    if standing.cancelled:
        return Verdict.CANCELLED
    if not standing.has_content:
        return Verdict.NO_CONTENT
    if standing.expires_at <= now:
        return Verdict.EXPIRED
    if standing.superseded:
        return Verdict.SUPERSEDED
    return Verdict.SUPPRESSED if standing.suppressed else Verdict.REPLAYED
