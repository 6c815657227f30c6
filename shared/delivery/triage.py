"""What a hint asks for, seen its row (semantics.md section 3). Pure.

The row decides: a hint may be late, doubled or stale, and none of that may send anything twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.delivery.row import DeliveryRow, Owed
from shared.kafka.record import Received
from shared.wire.channel import Lane
from shared.wire.message import DeliveryHint


@dataclass(frozen=True, slots=True)
class Attempt:
    """To be claimed and sent now."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now: this hint is published again."""

    owed: Owed


@dataclass(frozen=True, slots=True)
class PutOff:
    """Its allowed hours are over: it waits for the next ones."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Never to be sent: PENDING becomes SKIPPED for this reason."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Repeat:
    """Settled already: its last event (and open dead letter) is published again."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Asks for nothing any more: no row, or another hint speaks for it."""

    why: str


Step = Attempt | Wait | PutOff | Settle | Repeat | Drop


def triage(hint: DeliveryHint, row: DeliveryRow | None, lane: Lane, now: datetime) -> Step:  # noqa: PLR0911  one per row of the table
    """What to do about one hint.

    A hint one attempt behind a PENDING row may be all that is left of a worker that recorded a retry and died before it
    published it, so the row's own hint goes out again; older ones are dropped.
    """
    if row is None:
        return Drop("missing")
    if row.status in SETTLED:
        return Repeat()
    behind = row.attempt - hint.attempt
    if behind not in {0, 1}:
        return Drop("stale")
    if row.status is DeliveryStatus.SENDING:
        return Wait(later(row, lane, row.lease_until or now, now))
    reason = refusal(row, now)
    if reason is not None:
        return Settle(reason)
    if behind or row.next_attempt_at > now:
        return Wait(later(row, lane, row.next_attempt_at, now))
    if row.send_until is not None and row.send_until <= now:
        return PutOff()  # the claim would refuse it
    return Attempt()


def refusal(row: DeliveryRow, now: datetime) -> Reason | None:
    """Why a PENDING row must not go out at all, the strongest reason first; None if it may.

    Test mode counts in no suppression (semantics.md section 3).
    """
    if row.cancelled:
        return Reason.CANCELLED
    if row.expires_at <= now:
        return Reason.EXPIRED
    if not row.allowed:
        return Reason.NOT_ON_ALLOW_LIST
    if row.suppressed and row.mode != "test":
        return Reason.SUPPRESSED
    if row.withdrawn:
        return Reason.PREFERENCE
    return None


def later(row: DeliveryRow, lane: Lane, at: datetime, now: datetime) -> Owed:
    """The row's hint for `at`, through the shortest tier that covers the wait; never sooner than the shortest tier."""
    wait_sec = max(float(lane.tiers[0]), (at - now).total_seconds())
    tier = next((tier for tier in lane.tiers if tier >= wait_sec), lane.tiers[-1])
    # An overdue row (a lease that ran out and was not reaped yet) is looked at again after the tier's own delay.
    not_before = at if at > now else now + timedelta(seconds=tier)
    return Owed(row.hint(attempt=row.attempt, not_before=not_before), tier)


def by_key(received: Sequence[Received[DeliveryHint]]) -> dict[DeliveryKey, tuple[int, Received[DeliveryHint]]]:
    """One hint per delivery: of several, the one that knows of most attempts."""
    found: dict[DeliveryKey, tuple[int, Received[DeliveryHint]]] = {}
    for index, message in enumerate(received):
        hint = message.value
        key = DeliveryKey(hint.notification_id, hint.channel, hint.target_key)
        earlier = found.get(key)
        if earlier is None or earlier[1].value.attempt < hint.attempt:
            found[key] = (index, message)
    return found
