"""Messages with several recipients: the message is the unit of work (semantics.md section 3). Pure.

One hint stands for all recipients, whichever of them it names, and exactly one is published when work on it ends while
any of them is open. So hints do not multiply, and a recipient that waits needs none of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from shared.core.lifecycle import SETTLED, DeliveryStatus
from shared.core.sealing import Purpose
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.triage import Drop, Step, triage
from shared.wire.channel import Lane
from shared.wire.message import DeliveryHint

_AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)


def messages(rows: Iterable[DeliveryRow]) -> Mapping[UUID, Sequence[DeliveryRow]]:
    """The rows of e-mail requests, by their message; rows of other content are not in it."""
    found: defaultdict[UUID, list[DeliveryRow]] = defaultdict(list)
    for row in rows:
        if row.content_purpose == Purpose.EMAIL:
            found[row.key.notification_id].append(row)
    return found


def steps(
    hints: Sequence[DeliveryHint], rows: Sequence[DeliveryRow], lane: Lane, now: datetime
) -> list[tuple[DeliveryRow, Step]]:
    """What hints of one message ask for, over all its rows; in the rows' order.

    Open rows are taken as they stand, so whatever is due goes out together. Settled ones are told again only where
    these hints may be all that is left of whoever settled them; those that others have told of stay out of the answer.
    """
    by_target = {row.key.target_key: row for row in rows}
    live = [hint for hint in hints if not _stale(hint, by_target.get(hint.target_key), lane, now)]
    if not live:
        return [(rows[0], Drop("stale"))]
    marks = [_told_until(hint, by_target.get(hint.target_key)) for hint in live]
    found: list[tuple[DeliveryRow, Step]] = []
    for row in rows:
        if row.status in SETTLED and _told(row, marks):
            continue
        found.append((row, triage(row.hint(attempt=row.attempt, not_before=None), row, lane, now)))
    return found


def soonest(owed: Iterable[Owed]) -> Owed:
    """Of hints owed to one message, the one that stands for all: at its time, the others are looked at as well."""
    return min(owed, key=lambda each: (each.tier_sec is not None, each.hint.not_before or _AT_ONCE))


def _stale(hint: DeliveryHint, named: DeliveryRow | None, lane: Lane, now: datetime) -> bool:
    """Whether the recipient it names has moved on so far that another hint speaks for the message."""
    return named is not None and triage(hint, named, lane, now) == Drop("stale")


def _told(row: DeliveryRow, marks: Sequence[datetime | None]) -> bool:
    """Whether a settled row's event is out for certain. One that was settled from the start was never a worker's."""
    if row.updated_at == row.created_at:
        return True
    return all(mark is not None and row.updated_at < mark for mark in marks)


def _told_until(hint: DeliveryHint, named: DeliveryRow | None) -> datetime | None:
    """Changes before this moment have been told of by the work that published this hint; None: perhaps none have.

    A hint that finds the recipient it names as it was left (waiting, and due) came from work that ended well, and what
    that work settled, it told. Any other may be a hint that came again after a crash, or one that waited for the lease
    of a worker that died.
    """
    if hint.not_before is None or named is None:
        return None
    as_left = (
        named.status is DeliveryStatus.PENDING
        and named.attempt == hint.attempt
        and named.next_attempt_at <= hint.not_before
    )
    return hint.not_before if as_left else None
