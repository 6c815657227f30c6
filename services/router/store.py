"""The router's rows. One transaction per batch; a batch that fails for one row is saved row by row."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from services.router.notification import Notification, Owed, Plan, Recipient
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.decision.facts import Mode
from shared.postgres.errors import PartitionMissingError, translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.wire.channel import MessageClass
from shared.wire.topic import ROUTER_DLQ

_log = get_logger(__name__)

_DELIVERIES: Final = (
    *("notification_id", "channel", "target_key", "address_sealed", "platform", "app_id", "status", "reason"),
    *("message_class", "promise", "mode", "next_attempt_at", "last_error", "expires_at", "created_at", "updated_at"),
)
_CONTENTS: Final = ("notification_id", "channel", "sealed", "purpose", "locale", "template_version")
_LOG: Final = ("notification_id", "id", "kind", "channel", "target_key", "result", "reason", "detail")
_NOTIFICATIONS: Final = (
    *("id", "application_id", "event_id", "user_id", "type", "message_class", "mode", "state", "params_sealed"),
    *("locale", "business_key", "event_time", "expires_at", "traceparent", "created_at"),
)


@dataclass(frozen=True, slots=True)
class DedupKey:
    """What makes an event one: its application, its id and the mapping it goes through."""

    application_id: int
    key: str
    mapping: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A notification that an event asks for, with the plan it would be born with."""

    dedup: DedupKey
    fingerprint: bytes
    until: datetime
    plan: Plan


@dataclass(frozen=True, slots=True)
class Holder:
    """The notification that stands for a dedup key, and the fingerprint of what asked for it."""

    notification_id: UUID
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Saved:
    """plans: written by this call. lost: another process was first, or the state had changed. refused: by the
    database, for the row's own sake, with the error's class.
    """

    plans: tuple[Plan, ...] = ()
    lost: tuple[UUID, ...] = ()
    refused: tuple[tuple[UUID, str], ...] = ()


class RouterStore:
    """Raises UnavailableError when PostgreSQL cannot be used; the batch is then tried again."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._queries = load_queries("router")

    async def load(self, ids: Iterable[UUID]) -> list[Notification]:
        """The rows that exist, in id order."""
        wanted = sorted(set(ids))
        if not wanted:
            return []
        with translated():
            rows = await self._pool.fetch(self._queries["load_notifications"], wanted, wanted[0], wanted[-1])
        return [_notification(row) for row in rows]

    async def owed(self, ids: Iterable[UUID]) -> list[Owed]:
        """What decided notifications may still owe, in key order."""
        wanted = sorted(set(ids))
        if not wanted:
            return []
        with translated():
            rows = await self._pool.fetch(self._queries["owed_deliveries"], wanted, wanted[0], wanted[-1])
        return [_owed(row) for row in rows]

    async def save(self, plans: Sequence[Plan], now: datetime) -> Saved:
        """Write decisions of stored notifications, each only if its state is still the one that was seen."""
        ordered = sorted(plans, key=lambda plan: plan.notification.id)
        return await self._isolating(ordered, lambda c, part: self._save(c, part, now), lambda p: p.notification.id)

    async def enter(self, entries: Sequence[Entry], now: datetime) -> Saved:
        """Create notifications of events together with their decisions; the first of a dedup key wins."""
        ordered = sorted(entries, key=lambda entry: entry.plan.notification.id)
        return await self._isolating(
            ordered, lambda c, part: self._enter(c, part, now), lambda e: e.plan.notification.id
        )

    async def holders(self, keys: Iterable[DedupKey]) -> dict[DedupKey, Holder]:
        """Who already stands for these events."""
        wanted = list(dict.fromkeys(keys))
        if not wanted:
            return {}
        with translated():
            rows = await self._pool.fetch(
                self._queries["event_holders"],
                [key.application_id for key in wanted],
                [key.key for key in wanted],
                [key.mapping for key in wanted],
            )
        return {
            DedupKey(row["application_id"], row["key"], row["mapping"]): Holder(
                row["notification_id"], row["request_hmac"]
            )
            for row in rows
        }

    async def recipients(self, external_ids: Iterable[str]) -> dict[str, tuple[int, str | None, Recipient]]:
        """User id, locale and addresses by external id; first sight creates the user."""
        wanted = sorted(set(external_ids))
        if not wanted:
            return {}
        with translated():
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(self._queries["recipients"], wanted)
                unseen = sorted(set(wanted) - {row["external_id"] for row in rows})
                if unseen:
                    await connection.execute(self._queries["enter_recipients"], unseen)
                    rows += await connection.fetch(self._queries["recipients"], unseen)
        return {row["external_id"]: (row["user_id"], row["locale"], _recipient(row)) for row in rows}

    async def applications(self) -> dict[str, int]:
        """Application id by CloudEvents source."""
        with translated():
            rows = await self._pool.fetch(self._queries["applications"])
        return {source: row["id"] for row in rows for source in row["sources"]}

    async def log_duplicates(self, entries: Sequence[tuple[UUID, UUID, str]]) -> None:
        """(first notification, log id, detail) of events whose key is taken by another body; repeats add nothing."""
        if entries:
            ids, log_ids, details = zip(*sorted(entries), strict=True)
            with translated():
                await self._pool.execute(self._queries["log_duplicates"], ids, log_ids, details)

    async def _isolating(self, items: Sequence[Any], write: Any, identity: Any) -> Saved:
        """One transaction for all; where the database refuses a row, one for each.

        Raises PartitionMissingError after the others are saved: that row is right, and will go in when there is one.
        """
        if not items:
            return Saved()
        try:
            return await self._in_transaction(items, write)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError):
            _log.warning("batch_refused", rows=len(items))
        parts: list[Saved] = []
        refused: list[tuple[UUID, str]] = []
        missing: asyncpg.CheckViolationError | None = None
        for item in items:
            try:
                parts.append(await self._in_transaction([item], write))
            except asyncpg.CheckViolationError as error:  # what PostgreSQL says when there is no partition for a key
                missing = error
            except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
                refused.append((identity(item), type(error).__name__))
        if missing is not None:
            raise PartitionMissingError("a row has no partition: run `ulak db partitions`") from missing
        return Saved(
            plans=tuple(plan for part in parts for plan in part.plans),
            lost=tuple(lost for part in parts for lost in part.lost),
            refused=tuple(refused),
        )

    async def _in_transaction(self, items: Sequence[Any], write: Any) -> Saved:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                saved: Saved = await write(connection, items)
                return saved

    async def _save(self, connection: Connection, plans: Sequence[Plan], now: datetime) -> Saved:
        ids = [plan.notification.id for plan in plans]
        locked = await connection.fetch(self._queries["lock_notifications"], ids, ids[0], ids[-1])
        states = {row["id"]: row["state"] for row in locked}
        won = [plan for plan in plans if states.get(plan.notification.id) == plan.notification.state]
        groups: defaultdict[tuple[NotificationState, NotificationState], list[UUID]] = defaultdict(list)
        for plan in won:
            groups[plan.notification.state, plan.becomes].append(plan.notification.id)
        for (was, becomes), members in groups.items():
            if was is not becomes:
                await connection.fetch(
                    self._queries["settle_notifications"], members, members[0], members[-1], was, becomes
                )
        woken = groups.get((NotificationState.DEFERRED, NotificationState.DECIDED))
        if woken:
            await connection.execute(self._queries["forget_deferred"], woken)
        await self._write(connection, won, now)
        saved = {plan.notification.id for plan in won}
        return Saved(tuple(won), tuple(id_ for id_ in ids if id_ not in saved))

    async def _enter(self, connection: Connection, entries: Sequence[Entry], now: datetime) -> Saved:
        rows = await connection.fetch(
            self._queries["claim_events"],
            [entry.dedup.application_id for entry in entries],
            [entry.dedup.key for entry in entries],
            [entry.dedup.mapping for entry in entries],
            [entry.plan.notification.id for entry in entries],
            [entry.fingerprint for entry in entries],
            [entry.until for entry in entries],
        )
        first = {row["notification_id"] for row in rows}
        won = [entry.plan for entry in entries if entry.plan.notification.id in first]
        await connection.copy_records_to_table(
            "notifications",
            schema_name="ulak",
            columns=_NOTIFICATIONS,
            records=[_notification_record(plan) for plan in won],
        )
        await self._write(connection, won, now)
        return Saved(tuple(won), tuple(e.plan.notification.id for e in entries if e.plan.notification.id not in first))

    async def _write(self, connection: Connection, plans: Sequence[Plan], now: datetime) -> None:
        """Deliveries, contents, log, due rows and dead letters of plans in key order.

        COPY needs no ON CONFLICT: whoever changed the notification's state holds its lock and is the only one.
        """
        deliveries = sorted(
            (record for plan in plans for record in _delivery_records(plan, now)), key=lambda record: record[:3]
        )
        contents = sorted(record for plan in plans for record in _content_records(plan))
        log = sorted((record for plan in plans for record in _log_records(plan)), key=lambda record: record[:2])
        for table, columns, rows in (
            ("deliveries", _DELIVERIES, deliveries),
            ("contents", _CONTENTS, contents),
            ("delivery_log", _LOG, log),
        ):
            if rows:
                await connection.copy_records_to_table(table, schema_name="ulak", columns=columns, records=rows)
        due = [(plan.due_at, plan.notification.id) for plan in plans if plan.due_at is not None]
        if due:
            times, ids = zip(*due, strict=True)
            await connection.execute(self._queries["defer_notifications"], times, ids)
        letters = [(plan.notification.id, letter) for plan in plans for letter in plan.letters]
        if letters:
            await connection.execute(
                self._queries["enter_dead_letters"],
                ROUTER_DLQ,
                [letter_fingerprint(id_, letter.channel) for id_, letter in letters],
                [id_ for id_, _ in letters],
                [letter.channel for _, letter in letters],
                [letter.reason for _, letter in letters],
                [letter.detail[:256] for _, letter in letters],
                now,
            )


def letter_fingerprint(notification_id: UUID, channel: str) -> bytes:
    """SHA-256 of delivery and attempt; the router's are attempt 0 of a whole channel."""
    return hashlib.sha256(f"{notification_id}|{channel}||0".encode()).digest()


def _notification(row: asyncpg.Record) -> Notification:
    return Notification(
        id=row["id"],
        application_id=row["application_id"],
        event_id=row["event_id"],
        user_id=row["user_id"],
        type=row["type"],
        message_class=MessageClass(row["message_class"]),
        mode=Mode(row["mode"]),
        state=NotificationState(row["state"]),
        recipient=_recipient(row),
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        params_sealed=row["params_sealed"],
        channels=None if row["channels"] is None else tuple(row["channels"]),
        locale=row["locale"],
        business_key=row["business_key"],
        event_time=row["event_time"],
        send_at=row["send_at"],
        api_key_id=row["api_key_id"],
        traceparent=row["traceparent"],
    )


def _recipient(row: asyncpg.Record) -> Recipient:
    addresses: dict[str, tuple[bytes, bytes]] = {}
    if row["email_key"] is not None:
        addresses["EMAIL"] = (row["email_key"], row["email_sealed"])
    if row["phone_key"] is not None:
        addresses["SMS"] = (row["phone_key"], row["phone_sealed"])
    return Recipient(addresses, row["time_zone"])


def _owed(row: asyncpg.Record) -> Owed:
    return Owed(
        key=DeliveryKey(row["notification_id"], row["channel"], row["target_key"]),
        status=DeliveryStatus(row["status"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        attempt=row["attempt"],
        message_class=MessageClass(row["message_class"]),
        next_attempt_at=row["next_attempt_at"],
        updated_at=row["updated_at"],
        user_id=row["user_id"],
        traceparent=row["traceparent"],
    )


def _notification_record(plan: Plan) -> tuple[Any, ...]:
    n = plan.notification
    return (
        *(n.id, n.application_id, n.event_id, n.user_id, n.type, n.message_class, n.mode, plan.becomes),
        *(n.params_sealed, n.locale, n.business_key, n.event_time, n.expires_at, n.traceparent, n.created_at),
    )


def _delivery_records(plan: Plan, now: datetime) -> Iterable[tuple[Any, ...]]:
    n = plan.notification
    for d in plan.deliveries:
        yield (
            *(n.id, d.key.channel, d.key.target_key, d.address_sealed, d.platform, d.app_id, d.status, d.reason),
            *(n.message_class, d.promise, n.mode, now, d.last_error, n.expires_at, now, now),
        )


def _content_records(plan: Plan) -> Iterable[tuple[Any, ...]]:
    for c in plan.contents:
        yield (plan.notification.id, c.channel, c.sealed, Purpose.CONTENT, c.locale, c.template_version)


def _log_records(plan: Plan) -> Iterable[tuple[Any, ...]]:
    for e in plan.log:
        yield (plan.notification.id, e.id, "verdict", e.channel, e.target_key, e.result, e.reason, e.detail)
