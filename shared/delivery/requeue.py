"""Failed deliveries on their way again, once somebody has repaired what they failed by (semantics.md section 2).

For `ulak outbox requeue` (e-mails of model B) and `replay` (dead letters of every lane).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.replay import Verdict, verdict
from shared.delivery.consequence import Consequences, dead_letter_fingerprint
from shared.delivery.failed import Failed, columns, load_failed, lock_failed_emails
from shared.delivery.message import event_record, hint_record
from shared.delivery.request import clear_requests
from shared.delivery.row import Owed
from shared.kafka.record import Record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL, Channels, Lane, MessageClass

_SQL: Final = load_queries("requeue")
_GOING: Final = frozenset({Verdict.REPLAYED, Verdict.SUPPRESSED})
"""What `requeue_emails` lets go: a worker tells a suppressed recipient's source that it is one."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """Counts of deliveries (recipients), and the notifications they belong to."""

    pending: int
    expired: int
    notification_ids: frozenset[UUID]


async def requeue_emails(
    connection: Connection, notification_ids: Collection[UUID], *, now: datetime, dry_run: bool = False
) -> Requeued:
    """FAILED -> PENDING for deliveries that failed by what can be repaired, or SKIPPED(expired); the rest stay.

    In the caller's transaction on Ulak's own database, with a hint per message and the events in its outbox. Attempts
    begin again at 0. The end of the message is owed to its source again, so the caller sets the source's row from
    FAILED to SENDING in a transaction that it opens, and locks the row in, before this one, and commits after it: a
    crash in between then leaves a row that is written FAILED or SENT all the same. A cancelled notification is left
    alone. dry_run counts what would be done, and locks it until the transaction ends.
    """
    if not notification_ids:
        return Requeued(0, 0, frozenset())
    found = await load_failed(connection, await lock_failed_emails(connection, set(notification_ids)))
    judged = [(each, verdict(each.standing, now)) for each in found.values()]
    again = [each for each, word in judged if word in _GOING]
    expired = [each for each, word in judged if word is Verdict.EXPIRED]
    if not dry_run:
        await requeue(connection, again, expired, now=now)
    return Requeued(len(again), len(expired), frozenset(each.key.notification_id for each in (*again, *expired)))


async def requeue(
    connection: Connection,
    again: Sequence[Failed],
    expired: Sequence[Failed],
    *,
    now: datetime,
    provider: str | None = None,
    note: str | None = None,
    channels: Channels = DEFAULT_CHANNELS,
) -> None:
    """FAILED -> PENDING, and FAILED -> SKIPPED(expired), with their log lines, dead letters, hints and events.

    In the caller's transaction, which holds the rows locked, and in which `verdict` has let them go. Hints and events
    are in its outbox: with the transaction they all are there, or none. provider: the only one that they may go to.
    note: for the log, whose replay it is. The end of a message is owed to its source again.
    """
    failed = sorted((*again, *expired), key=lambda each: each.key)
    if not failed:
        return
    over = {each.key for each in expired}
    keys = [each.key for each in failed]
    ids, smallest, largest, names, targets = columns(keys)
    reasons = [Reason.EXPIRED if key in over else None for key in keys]
    statuses = [DeliveryStatus.SKIPPED if key in over else DeliveryStatus.PENDING for key in keys]
    where = (ids, smallest, largest, names, targets)
    await connection.execute(_SQL["requeue_deliveries"], *where, statuses, now, reasons, provider)
    await connection.execute(
        _SQL["log_requeued"],
        ids,
        [new_id() for _ in keys],
        names,
        targets,
        [each.attempt for each in failed],
        reasons,
        provider,
        note,
    )
    by_lane: defaultdict[Lane, list[Failed]] = defaultdict(list)
    for each in failed:
        by_lane[_lane(each, channels)].append(each)
    await connection.execute(
        _SQL["close_dead_letters"],
        sorted(lane.dlq_topic for lane in by_lane),
        [dead_letter_fingerprint(each.key, each.attempt) for each in failed],
        ids,
        now,
    )
    await _owe(connection, [*_hints(again, channels), *((each, _event(each, now)) for each in expired)], now)
    await owe_again(connection, {key.notification_id for key in keys if key.channel == EMAIL.name})
    await clear_requests(connection, over)
    for lane, members in by_lane.items():
        ended = [each.key.notification_id for each in members if each.key in over]
        await Consequences(lane).clear_codes(connection, ended)


async def owe_again(connection: Connection, notification_ids: Collection[UUID]) -> None:
    """The end of these messages is told to their sources again, whatever it is by now; in the caller's transaction."""
    if notification_ids:
        await connection.execute(_SQL["reopen_intakes"], sorted(set(notification_ids)))


async def _owe(connection: Connection, owed: Sequence[tuple[Failed, Record]], now: datetime) -> None:
    await connection.execute(
        _SQL["add_outbox"],
        [each.message_class for each, _ in owed],
        [record.topic for _, record in owed],
        [record.key for _, record in owed],
        [record.value for _, record in owed],
        [{name: value.decode() for name, value in record.headers} for _, record in owed],
        now,
    )


def _hints(again: Sequence[Failed], channels: Channels) -> list[tuple[Failed, Record]]:
    """One for each delivery; for the recipients of one message one together."""
    hinted: set[UUID] = set()
    hints: list[tuple[Failed, Record]] = []
    for each in sorted(again, key=lambda each: each.key):
        if each.shared_content:
            if each.key.notification_id in hinted:
                continue
            hinted.add(each.key.notification_id)
        lane = _lane(each, channels)
        hints.append((each, hint_record(Owed(each.hint, None), lane, each.partition_key, each.traceparent)))
    return hints


def _event(each: Failed, now: datetime) -> Record:
    return event_record(
        each.key,
        status=DeliveryStatus.SKIPPED,
        reason=Reason.EXPIRED,
        attempt=each.attempt,
        provider=each.provider,
        at=now,
    )


def _lane(each: Failed, channels: Channels) -> Lane:
    return channels.spec(each.key.channel).lane(MessageClass(each.message_class))
