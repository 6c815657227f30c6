"""Accepted codes in PostgreSQL: one group, one transaction, on the pool of the OTP surface alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg

from services.ingest.fast_publish import OUTBOX_DELAY_SEC, FastPublisher
from services.ingest.otp import (
    CHANNEL,
    DIRECT_AFTER,
    OTP_TYPE,
    OtpRow,
    Supersession,
    born_status,
    first_of_each_request,
    supersede,
)
from services.ingest.outgoing import LogEntry, Outgoing, add_log, add_outbox, skipped_event
from services.ingest.row import Acceptance, standing
from services.ingest.store import DedupKey, storing
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.postgres.errors import UnavailableError, translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.wire.channel import OTP_LANE, MessageClass

_log = get_logger(__name__)

_TRIES: Final = 3

Holders = dict[DedupKey, tuple[UUID, bytes]]
"""Dedup key -> who holds it and the fingerprint of its request."""


@dataclass(frozen=True, slots=True)
class _Stored:
    holders: Holders
    fresh: tuple[OtpRow, ...]
    outgoing: tuple[Outgoing, ...]


@dataclass(frozen=True, slots=True)
class OtpState:
    """What may be told of a code: everything but the code."""

    notification_id: UUID
    request_id: str
    status: str
    reason: str | None
    attempts: int
    created_at: datetime
    expires_at: datetime


class OtpStore:
    """`commit` is the group commit's: durable when it returns, and safe to call again with the same rows."""

    def __init__(self, pool: Pool, publisher: FastPublisher, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._publisher = publisher
        self._clock = clock
        self._queries = load_queries("ingest")

    async def commit(self, rows: Sequence[OtpRow]) -> list[Acceptance]:
        """Store a group; one answer per row, in order. Publishes hints of the new codes, events of the superseded.

        Raises BadRowError (split the group), PartitionMissingError or UnavailableError.
        """
        stored = await self._store(first_of_each_request(rows))
        records = [row.message.record(row.target_key) for row in stored.fresh]
        self._publisher.publish(
            [row.id for row in stored.fresh] + [event.outbox_id for event in stored.outgoing],
            [*records, *(event.record for event in stored.outgoing)],
        )
        return [_acceptance(row, stored.holders[row.dedup_key]) for row in rows]

    async def state(self, application_id: int, request_id: str) -> OtpState | None:
        """The code of one request, or None if the request is unknown or no longer kept."""
        if "\x00" in request_id:
            return None  # PostgreSQL's text cannot even hold it, so nothing was ever stored under it
        with translated():
            row = await self._pool.fetchrow(self._queries["otp_request"], application_id, request_id, OTP_TYPE)
        if row is None:
            return None
        return OtpState(
            notification_id=row["id"],
            request_id=row["event_id"],
            status=row["status"],
            reason=row["reason"],
            attempts=row["attempt"],
            created_at=row["created_at"],
            expires_at=row["expires_at"],
        )

    async def locale(self, external_id: str) -> str | None:
        """What is known of the language this recipient reads."""
        with translated():
            locale: str | None = await self._pool.fetchval(self._queries["recipient_locale"], external_id)
        return locale

    async def _store(self, rows: Sequence[OtpRow]) -> _Stored:
        """Tried again after a lost race or a lost connection: rows carry their ids, so nothing is stored twice."""
        for attempt in range(1, _TRIES + 1):
            try:
                with storing():
                    async with self._pool.acquire() as connection, connection.transaction():
                        return await self._transact(connection, rows)
            except (UnavailableError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
                _log.warning("otp_commit_retried", rows=len(rows), attempt=attempt, error=type(error).__name__)
        raise UnavailableError("PostgreSQL could not store the code now")

    async def _transact(self, connection: Connection, rows: Sequence[OtpRow]) -> _Stored:
        """Locks in one order everywhere: recipients, dedup rows, current codes, deliveries."""
        user_ids = await self._recipients(connection, rows)
        won, holders = await self._claim(connection, rows)
        if not won:
            return _Stored(holders, (), ())
        supersession = await self._supersede(connection, won)
        await self._insert(connection, won, supersession, user_ids)
        outgoing = [
            skipped_event(DeliveryKey(row.id, CHANNEL, row.target_key), Reason.SUPERSEDED, 0, None, row.created_at)
            for row in won
            if row.id in supersession.overtaken
        ]
        outgoing += await self._end(connection, supersession.superseded)
        available_at = self._clock() + timedelta(seconds=OUTBOX_DELAY_SEC)
        await add_outbox(connection, outgoing, MessageClass.CRITICAL, available_at)
        fresh = tuple(row for row in won if row.id not in supersession.overtaken)
        return _Stored(holders, fresh, tuple(outgoing))

    async def _recipients(self, connection: Connection, rows: Sequence[OtpRow]) -> dict[str, int]:
        named = sorted({row.external_id for row in rows if row.external_id is not None})
        if not named:
            return {}
        await connection.execute(self._queries["create_recipients"], named)
        records = await connection.fetch(self._queries["recipient_ids"], named)
        return {record["external_id"]: record["user_id"] for record in records}

    async def _claim(self, connection: Connection, rows: Sequence[OtpRow]) -> tuple[list[OtpRow], Holders]:
        """The rows that are first of their request, and who holds each request."""
        claimed = await connection.fetch(
            self._queries["claim_requests"],
            *_keys(rows),
            [row.id for row in rows],
            [row.fingerprint for row in rows],
            [row.kept_until for row in rows],
        )
        ids = {record["notification_id"] for record in claimed}
        won = [row for row in rows if row.id in ids]
        holders: Holders = {row.dedup_key: (row.id, row.fingerprint) for row in won}
        lost = [row for row in rows if row.id not in ids]
        if lost:
            for record in await connection.fetch(self._queries["request_holders"], *_keys(lost)):
                key = (record["application_id"], record["key"], record["mapping"])
                holders[key] = record["notification_id"], record["request_hmac"]
        if any(row.dedup_key not in holders for row in rows):
            raise UnavailableError("a dedup row was pruned in this very moment")
        return won, holders

    async def _supersede(self, connection: Connection, rows: Sequence[OtpRow]) -> Supersession:
        newest = supersede(rows, {}).current
        phones, purposes = [key[0] for key in newest], [key[1] for key in newest]
        ids, expiries = [row.id for row in newest.values()], [row.expires_at for row in newest.values()]
        await connection.execute(self._queries["enter_current_codes"], phones, purposes, ids, expiries)
        locked = await connection.fetch(self._queries["lock_current_codes"], phones, purposes)
        supersession = supersede(
            rows, {(record["phone_key"], record["purpose"]): record["notification_id"] for record in locked}
        )
        current = supersession.current
        await connection.execute(
            self._queries["replace_current_codes"],
            [key[0] for key in current],
            [key[1] for key in current],
            [row.id for row in current.values()],
            [row.expires_at for row in current.values()],
        )
        return supersession

    async def _insert(
        self, connection: Connection, rows: Sequence[OtpRow], supersession: Supersession, user_ids: dict[str, int]
    ) -> None:
        born = [born_status(row, supersession) for row in rows]
        await connection.execute(
            self._queries["store_codes"],
            [row.id for row in rows],
            [row.application_id for row in rows],
            [row.request_id for row in rows],
            [None if row.external_id is None else user_ids[row.external_id] for row in rows],
            [row.mode for row in rows],
            [row.locale for row in rows],
            [row.expires_at for row in rows],
            [row.api_key_id for row in rows],
            [row.traceparent for row in rows],
            [row.created_at for row in rows],
            [row.target_key for row in rows],
            [row.address_sealed for row in rows],
            [status for status, _ in born],
            [reason for _, reason in born],
            [row.content_sealed for row in rows],
            [row.template_version for row in rows],
            [row.message.payload for row in rows],
            [row.message.headers_json for row in rows],
            [row.log_id for row in rows],
            [row.created_at + DIRECT_AFTER for row in rows],
            [f"code for {row.purpose}" for row in rows],
            OTP_TYPE,
            MessageClass.CRITICAL,
            OTP_LANE.topic,
            self._clock() + timedelta(seconds=OUTBOX_DELAY_SEC),
        )

    async def _end(self, connection: Connection, superseded: Sequence[UUID]) -> list[Outgoing]:
        """Skip what waits of the superseded codes and forget their texts; those on the wire are only flagged."""
        if not superseded:
            return []
        bounds = min(superseded), max(superseded)
        now = self._clock()
        records = await connection.fetch(self._queries["supersede_codes"], superseded, *bounds, now)
        sending = {record["notification_id"] for record in records if record["status"] == DeliveryStatus.SENDING}
        skipped = [record for record in records if record["status"] == DeliveryStatus.SKIPPED]
        await connection.execute(
            self._queries["clear_codes"],
            [identifier for identifier in superseded if identifier not in sending],
            *bounds,
        )
        if not skipped:
            return []
        await connection.execute(self._queries["forget_otp_due"], [record["notification_id"] for record in skipped])
        keys = [DeliveryKey(record["notification_id"], CHANNEL, record["target_key"]) for record in skipped]
        await add_log(
            connection,
            [
                LogEntry(key, new_id(), "verdict", "skip", Reason.SUPERSEDED, "a newer code took its place")
                for key in keys
            ],
        )
        return [
            skipped_event(key, Reason.SUPERSEDED, record["attempt"], record["provider"], now)
            for key, record in zip(keys, skipped, strict=True)
        ]


def _keys(rows: Sequence[OtpRow]) -> tuple[list[int], list[str], list[str]]:
    return [row.application_id for row in rows], [row.request_id for row in rows], [OTP_TYPE] * len(rows)


def _acceptance(row: OtpRow, holder: tuple[UUID, bytes]) -> Acceptance:
    holder_id, fingerprint = holder
    found = standing(own_id=row.id, own_fingerprint=row.fingerprint, holder=holder_id, holder_fingerprint=fingerprint)
    return Acceptance(holder_id, found)
