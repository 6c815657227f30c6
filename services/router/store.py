"""The router's rows. One transaction per batch; a batch that fails for one row is saved row by row."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

import asyncpg

from services.router.notification import Notification, Owed, Plan
from services.router.row import (
    CONTENTS,
    DELIVERIES,
    LOG,
    NOTIFICATIONS,
    content_records,
    delivery_records,
    inbox_entries,
    letter_fingerprint,
    log_records,
    notification_record,
    to_notification,
    to_owed,
    to_recipient,
)
from services.router.window import claim_windows
from shared.core.lifecycle import NotificationState
from shared.facts.subject import Recipient
from shared.postgres.errors import PartitionMissingError, UnavailableError, translated
from shared.postgres.inbox import write_inbox
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.wire.topic import ROUTER_DLQ

_log = get_logger(__name__)

_number: Final = attrgetter("int")
"""UUIDs sort by their number as the database does, without a Python comparison each."""


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
    """plans: as this call wrote them. lost: another process was first, or the state had changed. refused: by the
    database, for the row's own sake, with the error's class.
    """

    plans: tuple[Plan, ...] = ()
    lost: tuple[UUID, ...] = ()
    refused: tuple[tuple[UUID, str], ...] = ()


class RouterStore:
    """Raises UnavailableError when PostgreSQL cannot be used; the batch is then tried again."""

    def __init__(self, pool: Pool, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        self._queries = load_queries("router")

    async def load(self, ids: Iterable[UUID]) -> list[Notification]:
        """The rows that exist, in id order."""
        wanted = sorted(set(ids), key=_number)
        if not wanted:
            return []
        with translated():
            rows = await self._pool.fetch(self._queries["load_notifications"], wanted, wanted[0], wanted[-1])
        return [to_notification(row) for row in rows]

    async def owed(self, ids: Iterable[UUID]) -> list[Owed]:
        """What decided notifications may still owe, in key order."""
        wanted = sorted(set(ids), key=_number)
        if not wanted:
            return []
        with translated():
            rows = await self._pool.fetch(self._queries["owed_deliveries"], wanted, wanted[0], wanted[-1])
        return [to_owed(row) for row in rows]

    async def save(self, plans: Sequence[Plan], now: datetime) -> Saved:
        """Write decisions of stored notifications, each only if its state is still the one that was seen."""
        ordered = sorted(plans, key=lambda plan: plan.notification.id.int)
        return await self._isolating(ordered, lambda c, part: self._save(c, part, now), lambda p: p.notification.id)

    async def enter(self, entries: Sequence[Entry], now: datetime) -> Saved:
        """Create notifications of events together with their decisions; the first of a dedup key wins."""
        ordered = sorted(entries, key=lambda entry: entry.plan.notification.id.int)
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
        return {row["external_id"]: (row["user_id"], row["locale"], to_recipient(row)) for row in rows}

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
                _check_in_time(saved.plans, self._clock())
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
                await connection.execute(
                    self._queries["settle_notifications"], members, members[0], members[-1], was, becomes
                )
        woken = groups.get((NotificationState.DEFERRED, NotificationState.DECIDED))
        if woken:
            await connection.execute(self._queries["forget_deferred"], woken)
        saved = await self._write(connection, won, now)
        won_ids = {plan.notification.id for plan in won}
        return Saved(saved, tuple(id_ for id_ in ids if id_ not in won_ids))

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
            columns=NOTIFICATIONS,
            records=[notification_record(plan) for plan in won],
        )
        saved = await self._write(connection, won, now)
        return Saved(saved, tuple(e.plan.notification.id for e in entries if e.plan.notification.id not in first))

    async def _write(self, connection: Connection, won: Sequence[Plan], now: datetime) -> tuple[Plan, ...]:
        """Deliveries, contents, log, due rows and dead letters of plans in id order; the plans as they were written.

        COPY needs no ON CONFLICT: whoever changed the notification's state holds its lock and is the only one.
        """
        plans = await claim_windows(connection, won, now)
        deliveries = [record for plan in plans for record in delivery_records(plan, now)]
        contents = [record for plan in plans for record in content_records(plan)]
        log = [record for plan in plans for record in log_records(plan)]
        for table, columns, rows in (
            ("deliveries", DELIVERIES, deliveries),
            ("contents", CONTENTS, contents),
            ("delivery_log", LOG, log),
        ):
            if rows:
                await connection.copy_records_to_table(table, schema_name="ulak", columns=columns, records=rows)
        await write_inbox(connection, [entry for plan in plans for entry in inbox_entries(plan, now)])
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
        return plans


def _check_in_time(plans: Sequence[Plan], now: float) -> None:
    """After a loss of Redis, PostgreSQL is taken to know all that was reserved before (shared/redis_store/cap.py)."""
    if any(plan.reservation is not None and plan.reservation.commit_by < now for plan in plans):
        raise UnavailableError("the transaction took longer than a reservation holds: decide again")
