"""Leases that ran out: a worker died, or stood still, between claim and record (semantics.md, sections 2 and 3).

Nobody knows whether the attempt reached the provider, so it counts as made. Were it not counted, a late negative
receipt of the lost attempt would be taken for one of its repetition, a receipt could not settle an at-most-once
UNKNOWN, and a message that kills its worker would do so for ever.
Hints and events go through the outbox, in the transaction that makes them due: a kill -9 here loses none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from services.relay.hints import Row, bounds, delivery_record
from services.relay.own_outbox import enqueue
from shared.core.event import delivery_event
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason, ReceiptKind, after_receipt
from shared.core.reference import DeliveryKey
from shared.delivery.consequence import dead_letter_fingerprint
from shared.delivery.request import clear_requests
from shared.kafka.dead_letters import DeadLetter, dead_letter_headers
from shared.kafka.record import Record
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import LEASES_REAPED
from shared.wire.channel import Channels, Lane, MessageClass, Promise
from shared.wire.topic import DELIVERY_EVENTS

_BATCH: Final = 50
"""Leases per transaction; each holds up to a lane's batch of deliveries."""
_DETAIL: Final = "the worker's lease ran out before it recorded an outcome"

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What becomes of a delivery whose lease ran out."""

    status: DeliveryStatus
    reason: Reason | None = None


def rule(
    *,
    promise: Promise,
    attempts_made: int,
    max_attempts: int | None,
    cancelled: bool,
    expires_at: datetime,
    now: datetime,
) -> Ruling:
    """attempts_made counts the lost one; max_attempts None: no limit.

    At most once: UNKNOWN, whatever else holds, because it may have been sent. At least once: sent again with the same
    reference, unless that is pointless (cancelled, expired) or was tried often enough.
    """
    if promise is Promise.AT_MOST_ONCE:
        return Ruling(DeliveryStatus.UNKNOWN, Reason.AMBIGUOUS)
    if cancelled:
        return Ruling(DeliveryStatus.SKIPPED, Reason.CANCELLED)
    if now >= expires_at:
        return Ruling(DeliveryStatus.SKIPPED, Reason.EXPIRED)
    if max_attempts is not None and attempts_made >= max_attempts:
        return Ruling(DeliveryStatus.FAILED, Reason.EXHAUSTED)
    return Ruling(DeliveryStatus.PENDING)


@dataclass(frozen=True, slots=True)
class Reaped:
    """One delivery with its ruling; attempt includes the lost one."""

    row: Row
    key: DeliveryKey
    attempt: int
    ruling: Ruling
    lane: Lane | None


class Reaper:
    """Several may run: leases are shared by SKIP LOCKED."""

    def __init__(
        self,
        pool: Pool,
        channels: Channels,
        *,
        grace_sec: float,
        service_version: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._pool = pool
        self._channels = channels
        self._grace_sec = grace_sec
        self._service_version = service_version
        self._clock = clock
        self._sql: Final = load_queries("reaper")

    async def round(self) -> bool:
        """One batch of leases; True if it was full."""
        async with self._pool.acquire() as connection, connection.transaction():
            leases = await connection.fetch(self._sql["due_leases"], _BATCH, self._grace_sec)
            if not leases:
                return False
            claims = [lease["claim_id"] for lease in leases]
            ids = sorted({each for lease in leases for each in lease["notification_ids"]})
            rows = await connection.fetch(self._sql["stuck_deliveries"], ids, *bounds(ids), claims)
            now = self._clock()
            reaped = [self._reap(row, now) for row in rows]
            reaped = await self._with_parked(connection, reaped)
            if reaped:
                await self._record(connection, reaped, now)
            await connection.execute(self._sql["remove_leases"], claims, *bounds(ids))
        self._report(reaped)
        return len(leases) == _BATCH

    def _reap(self, row: Row, now: datetime) -> Reaped:
        channel = row["channel"]
        known = channel in self._channels
        lane = self._channels.spec(channel).lane(MessageClass(row["message_class"])) if known else None
        attempt = row["attempt"] + 1
        ruling = rule(
            promise=Promise(row["promise"]),
            attempts_made=attempt,
            max_attempts=None if lane is None else lane.max_attempts,
            cancelled=row["cancel_requested"] or row["notification_state"] == NotificationState.CANCELLED,
            expires_at=row["expires_at"],
            now=now,
        )
        return Reaped(row, DeliveryKey(row["notification_id"], channel, row["target_key"]), attempt, ruling, lane)

    async def _with_parked(self, connection: Connection, reaped: Sequence[Reaped]) -> list[Reaped]:
        """A receipt that came before this record settles what is UNKNOWN now: it proves what became of the attempt."""
        unknown = [each for each in reaped if each.ruling.status is DeliveryStatus.UNKNOWN]
        if not unknown:
            return list(reaped)
        parked = await connection.fetch(self._sql["take_parked"], *key_columns([each.key for each in unknown]))
        by_key: dict[DeliveryKey, list[Row]] = {}
        for receipt in parked:
            key = DeliveryKey(receipt["notification_id"], receipt["channel"], receipt["target_key"])
            by_key.setdefault(key, []).append(receipt)
        return [each if each.key not in by_key else self._settled_by(each, by_key[each.key]) for each in reaped]

    @staticmethod
    def _settled_by(reaped: Reaped, receipts: Sequence[Row]) -> Reaped:
        status = reaped.ruling.status
        for receipt in receipts:
            status = (
                after_receipt(
                    status,
                    ReceiptKind(receipt["kind"]),
                    receipt_attempt=receipt["attempt"],
                    current_attempt=reaped.attempt,
                    channel=reaped.key.channel,
                )
                or status
            )
        if status is reaped.ruling.status:
            return reaped
        reason = Reason.UNDELIVERED if status is DeliveryStatus.FAILED else None
        return Reaped(reaped.row, reaped.key, reaped.attempt, Ruling(status, reason), reaped.lane)

    async def _record(self, connection: Connection, reaped: Sequence[Reaped], now: datetime) -> None:
        keys = [each.key for each in reaped]
        ids = [key.notification_id for key in keys]
        await connection.execute(
            self._sql["settle_stuck"],
            *key_columns(keys),
            [each.ruling.status for each in reaped],
            [each.ruling.reason for each in reaped],
            [each.attempt for each in reaped],
            [_DETAIL for _ in reaped],
            [each.row["claim_id"] for each in reaped],
            now,
            *bounds(ids),
        )
        ended = [each for each in reaped if each.ruling.status is not DeliveryStatus.PENDING]
        await clear_requests(connection, (each.key for each in ended))
        await self._log(connection, reaped)
        unknown = [each.key for each in reaped if each.ruling.status is DeliveryStatus.UNKNOWN]
        if unknown:
            await connection.execute(self._sql["open_unknown"], *key_columns(unknown), now)
        waiting = [each for each in reaped if each.ruling.status is DeliveryStatus.PENDING]
        exhausted = [each for each in reaped if each.ruling.reason is Reason.EXHAUSTED]
        await self._index(connection, exhausted, now)
        owed = [
            *((each, self._hint(each)) for each in _standing(waiting)),
            *((each, _event(each, now)) for each in ended),
            *((each, self._dead_letter(each, now)) for each in _standing(exhausted)),
        ]
        await enqueue(connection, [(each.row["message_class"], record) for each, record in owed if record is not None])

    async def _log(self, connection: Connection, reaped: Sequence[Reaped]) -> None:
        await connection.execute(
            self._sql["log_deliveries"],
            "attempt",
            [each.key.notification_id for each in reaped],
            [new_id() for _ in reaped],
            [each.key.channel for each in reaped],
            [each.key.target_key for each in reaped],
            [each.attempt for each in reaped],
            ["ambiguous" for _ in reaped],
            [each.ruling.reason for each in reaped],
            [each.row["provider"] for each in reaped],
            [_DETAIL for _ in reaped],
        )

    def _hint(self, reaped: Reaped) -> Record | None:
        """To its lane; None for a channel this installation does not have."""
        return delivery_record(reaped.row, self._channels, attempt=reaped.attempt)

    def _dead_letter(self, reaped: Reaped, now: datetime) -> Record | None:
        hint = self._hint(reaped)
        if hint is None or reaped.lane is None:
            return None
        letter = DeadLetter(
            topic=reaped.lane.topic,
            partition=-1,  # it comes from its row, not from a place in the topic
            offset=-1,
            key=hint.key,
            value=hint.value,
            headers=list(hint.headers),
            error_class=Reason.EXHAUSTED,
            error_message=_DETAIL,
            attempts=reaped.attempt,
            first_seen=now,
        )
        headers = dead_letter_headers(letter, self._service_version)
        return Record(reaped.lane.dlq_topic, hint.key, hint.value, headers)

    async def _index(self, connection: Connection, exhausted: Sequence[Reaped], now: datetime) -> None:
        listed = [(each, each.lane) for each in exhausted if each.lane is not None]
        if not listed:
            return
        await connection.execute(
            self._sql["index_exhausted"],
            [lane.dlq_topic for _, lane in listed],
            [dead_letter_fingerprint(each.key, each.attempt) for each, _ in listed],
            *key_columns([each.key for each, _ in listed]),
            [Reason.EXHAUSTED for _ in listed],
            [_DETAIL for _ in listed],
            now,
        )

    def _report(self, reaped: Sequence[Reaped]) -> None:
        for each in reaped:
            LEASES_REAPED.labels(each.ruling.status).inc()
            _log.warning(
                "lease_reaped",
                notification_id=str(each.key.notification_id),
                channel=each.key.channel,
                status=each.ruling.status,
                attempt=each.attempt,
            )


def _standing(reaped: Iterable[Reaped]) -> Iterator[Reaped]:
    """Those whose hint goes out: of an e-mail request's recipients the first, which stands for the message."""
    messages: set[UUID] = set()
    for each in reaped:
        if each.row["is_request"]:
            if each.key.notification_id in messages:
                continue
            messages.add(each.key.notification_id)
        yield each


def _event(reaped: Reaped, now: datetime) -> Record:
    key, value, headers = delivery_event(
        reaped.key,
        status=reaped.ruling.status,
        reason=reaped.ruling.reason,
        attempt=reaped.attempt,
        provider=reaped.row["provider"],
        at=now,
    )
    return Record(DELIVERY_EVENTS, key, value, headers)


def key_columns(keys: Sequence[DeliveryKey]) -> tuple[list[UUID], list[str], list[bytes]]:
    """Keys as the three arrays that queries unnest."""
    return (
        [key.notification_id for key in keys],
        [key.channel for key in keys],
        [key.target_key for key in keys],
    )
