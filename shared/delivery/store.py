"""The pipeline's statements: read, claim, settle, record. Each is one transaction; none is open during a send."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar
from uuid import UUID

from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.delivery.consequence import Changed, Consequences, Line, dead_letter_fingerprint
from shared.delivery.plan import Record
from shared.delivery.request import clear_requests
from shared.delivery.row import DeliveryRow
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Lane, MessageClass, Promise

_SQL: Final = load_queries("delivery")
_number: Final = attrgetter("int")
"""UUIDs sort by their number as the database does, without a Python comparison each."""
_DETAIL_CHARS: Final = 256
T = TypeVar("T")

# By value: an enum's own look-up costs several times as much, and every row needs four.
_STATUS: Final = {status.value: status for status in DeliveryStatus}
_REASON: Final[Mapping[str | None, Reason | None]] = {None: None} | {reason.value: reason for reason in Reason}
_CLASS: Final = {message_class.value: message_class for message_class in MessageClass}
_PROMISE: Final = {promise.value: promise for promise in Promise}


@dataclass(frozen=True, slots=True)
class Settled:
    """PENDING -> SKIPPED or FAILED without a claim."""

    row: DeliveryRow
    status: DeliveryStatus
    reason: Reason
    detail: str | None = None
    dead_letter: bool = False


@dataclass(frozen=True, slots=True)
class OpenDeadLetter:
    error_class: str
    detail: str


def in_key_order(entries: Iterable[T], key: Callable[[T], DeliveryKey]) -> list[T]:
    """Deliveries of one channel in the order of their rows, which is the order batches lock in."""
    return sorted(entries, key=lambda entry: ((found := key(entry)).notification_id.int, found.target_key))


def _sparse(column: list[Any]) -> list[Any]:
    """Nothing at all for a column without values: unnest pads with NULL, and most outcomes are plain successes."""
    return [] if all(value is None for value in column) else column


class DeliveryStore:
    """Deliveries of one lane. Raises what asyncpg raises; a failed call has changed nothing."""

    def __init__(self, pool: Pool, lane: Lane) -> None:
        self._pool = pool
        self._lane = lane
        self._channel = lane.channel
        self._consequences = Consequences(lane)

    async def load(self, keys: Collection[DeliveryKey]) -> Mapping[DeliveryKey, DeliveryRow]:
        """The rows there are, with content and what decides about them, by key.

        Other targets of the same notifications may be among them.
        """
        ids = sorted({key.notification_id for key in keys}, key=_number)
        bounds = (ids, ids[0], ids[-1], self._channel)
        records = await self._pool.fetch(_SQL["load_deliveries"], *bounds)
        withdrawn: set[UUID] = set()
        if self._lane.message_class >= MessageClass.BULK:
            withdrawn = {record[0] for record in await self._pool.fetch(_SQL["load_withdrawn"], *bounds)}
        rows = (_row(self._channel, record, withdrawn) for record in records)
        return {row.key: row for row in rows}

    async def requests(self, ids: Collection[UUID]) -> Mapping[UUID, bytes]:
        """Sealed e-mail requests by notification; one that was cleared is not among them."""
        wanted = sorted(ids, key=_number)
        records = await self._pool.fetch(_SQL["load_requests"], wanted, wanted[0], wanted[-1])
        return {record[0]: record[1] for record in records}

    async def claim(
        self,
        rows: Sequence[DeliveryRow],
        *,
        claim_id: UUID,
        provider: str,
        now: datetime,
        lease_until: datetime,
        revision: int,
    ) -> frozenset[int] | None:
        """PENDING -> SENDING for those that may still go out, with one lease for all; which of `rows` are ours now.

        rows: in key order, as `in_key_order` gives them. revision: of the controls that let them through; None where
        these are out of date: then nothing is claimed.
        """
        ids = [row.key.notification_id for row in rows]
        records = await self._pool.fetch(
            _SQL["claim_deliveries"],
            ids,
            ids[0],
            ids[-1],
            [row.key.target_key for row in rows],
            _sparse([row.attempt or None for row in rows]),
            self._channel,
            claim_id,
            lease_until,
            now,
            self._lane.name,
            provider,
            revision,
        )
        positions = frozenset(record[0] - 1 for record in records)
        return None if -1 in positions else positions

    async def settle(self, settled: Sequence[Settled], now: datetime) -> frozenset[DeliveryKey]:
        """End rows that were never claimed; the keys of those that were still PENDING."""
        ordered = in_key_order(settled, lambda entry: entry.row.key)
        ids = [entry.row.key.notification_id for entry in ordered]
        async with self._pool.acquire() as connection, connection.transaction():
            records = await connection.fetch(
                _SQL["settle_pending"],
                ids,
                ids[0],
                ids[-1],
                self._channel,
                now,
                [entry.row.key.target_key for entry in ordered],
                [entry.status for entry in ordered],
                [entry.reason for entry in ordered],
                [entry.detail for entry in ordered],
            )
            keys = frozenset(DeliveryKey(record[0], self._channel, record[1]) for record in records)
            ended = [entry for entry in ordered if entry.row.key in keys]
            await self._consequences.log(
                connection,
                [
                    Line(entry.row.key, "verdict", entry.row.attempt, "skip", entry.reason, None, entry.detail)
                    for entry in ended
                ],
            )
            await self._consequences.clear_codes(
                connection, (entry.row.key.notification_id for entry in ended if entry.status is DeliveryStatus.SKIPPED)
            )
            await clear_requests(
                connection, (entry.row.key for entry in ended if entry.row.content_purpose == Purpose.EMAIL)
            )
            await self._consequences.index_dead_letters(
                connection,
                [
                    (entry.row.key, entry.row.attempt, entry.reason, entry.detail or "")
                    for entry in ended
                    if entry.dead_letter
                ],
                now,
            )
        return keys

    async def record(
        self,
        records: Sequence[Record],
        *,
        claim_id: UUID,
        now: datetime,
        ends_lease: bool = True,
        requests: Collection[UUID] = (),
        routes: Mapping[DeliveryKey, str] = MappingProxyType({}),
    ) -> Sequence[Changed]:
        """Write outcomes of a claim and, with its last ones, end its lease, in one transaction; what the rows hold now.

        records: in key order; requests: their notifications that are e-mail requests; routes: why some went to another
        provider than their first. Rows that are no longer this
        claim's (a receipt was quicker, or the lease ran out) are not in the answer; their attempts are logged all the
        same.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            changed = await self._write(connection, records, claim_id, now, ends_lease=ends_lease)
            lines = [
                Line(r.key, "attempt", r.attempt, r.log.result, r.log.reason, r.provider, r.log.detail)
                for r in records
                if r.log is not None
            ]
            if routes:
                lines = [*_route_lines(records, routes), *lines]
            changed, receipts = await self._consequences.apply_parked(connection, records, changed, now)
            await self._consequences.log(connection, [*lines, *receipts])
            await self._consequences.of_records(connection, records, changed, now)
            if requests:
                settled = (change.record.key for change in changed if change.status in SETTLED)
                await clear_requests(connection, (key for key in settled if key.notification_id in requests))
        return changed

    async def log_waits(self, waits: Sequence[tuple[DeliveryRow, str]]) -> None:
        """Tell of deliveries that no provider takes now, each with the reason."""
        lines = [Line(row.key, "route", row.attempt, "wait", None, None, note[:_DETAIL_CHARS]) for row, note in waits]
        async with self._pool.acquire() as connection:
            await self._consequences.log(connection, lines)

    async def open_dead_letters(self, rows: Collection[DeliveryRow]) -> Mapping[DeliveryKey, OpenDeadLetter]:
        """Those of the rows that have an open dead letter for their last attempt."""
        by_fingerprint = {dead_letter_fingerprint(row.key, row.attempt): row.key for row in rows}
        if not by_fingerprint:
            return {}
        found = await self._pool.fetch(_SQL["open_dead_letters"], self._lane.dlq_topic, list(by_fingerprint))
        return {by_fingerprint[record[0]]: OpenDeadLetter(record[1], record[2] or "") for record in found}

    async def _write(
        self, connection: Connection, ordered: Sequence[Record], claim_id: UUID, now: datetime, *, ends_lease: bool
    ) -> Sequence[Changed]:
        ids = [record.key.notification_id for record in ordered]
        costs = _sparse([record.cost for record in ordered])
        prices = [None if cost is None else cost.price for cost in costs]
        written = await connection.fetch(
            _SQL["record_outcomes"],
            ids,
            ids[0],
            ids[-1],
            self._channel,
            claim_id,
            now,
            [record.key.target_key for record in ordered],
            _sparse([None if record.status is DeliveryStatus.SENT else record.status for record in ordered]),
            _sparse([record.reason for record in ordered]),
            _sparse([None if record.status is DeliveryStatus.SENT else record.attempt for record in ordered]),
            _sparse([record.next_attempt_at for record in ordered]),
            [record.provider_message_id for record in ordered],
            _sparse([record.last_error for record in ordered]),
            ends_lease,
            [None if cost is None else cost.segments for cost in costs],
            [None if price is None else price.micros for price in prices],
            [None if price is None else price.currency for price in prices],
        )
        return [Changed(ordered[place - 1], _STATUS[status], _REASON[reason]) for place, status, reason in written]


def _route_lines(records: Sequence[Record], routes: Mapping[DeliveryKey, str]) -> Iterator[Line]:
    for record in records:
        note = routes.get(record.key)
        if note is not None and record.result != "not_sent":
            yield Line(record.key, "route", record.attempt, "to", None, record.provider, note[:_DETAIL_CHARS])


def _row(channel: str, record: Any, withdrawn: Collection[UUID]) -> DeliveryRow:
    (
        notification_id,
        target_key,
        status,
        reason,
        message_class,
        promise,
        mode,
        attempt,
        next_attempt_at,
        lease_until,
        provider,
        send_until,
        expires_at,
        created_at,
        updated_at,
        cancelled,
        suppressed,
        allowed,
        platform,
        app_id,
        campaign_id,
        chunk,
        collapse_key,
        address_sealed,
        content_sealed,
        content_purpose,
        type_name,
        marketing,
        user_id,
        chosen_provider,
    ) = record
    return DeliveryRow(
        key=DeliveryKey(notification_id, channel, target_key),
        status=_STATUS[status],
        reason=_REASON[reason],
        message_class=_CLASS[message_class],
        promise=_PROMISE[promise],
        mode=mode,
        attempt=attempt,
        next_attempt_at=next_attempt_at,
        lease_until=lease_until,
        provider=provider,
        send_until=send_until,
        expires_at=expires_at,
        created_at=created_at,
        updated_at=updated_at,
        cancelled=cancelled,
        suppressed=suppressed,
        allowed=allowed,
        withdrawn=notification_id in withdrawn,
        platform=platform,
        app_id=app_id or "",
        campaign_id=campaign_id,
        chunk=chunk,
        collapse_key=collapse_key,
        address_sealed=address_sealed,
        content_sealed=content_sealed,
        content_purpose=content_purpose,
        type_name=type_name,
        marketing=marketing,
        user_id=user_id,
        chosen_provider=chosen_provider,
    )
