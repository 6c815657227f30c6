"""The projector's transaction: dedup, lock, decide, write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from services.callbacks.projection import Delivery, Effect, Statement, apply_all
from shared.core.lifecycle import SETTLED, DeliveryStatus, Reason, ReceiptKind
from shared.core.reference import DeliveryKey
from shared.delivery.request import clear_requests
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import RECEIPTS

_PARKED_NAMESPACE: Final = UUID("0c5d2d1e-8f5b-4d0e-9a57-6f3f1f7b7a11")


@dataclass(frozen=True, slots=True)
class _Change:
    before: Delivery
    after: Delivery
    effects: Sequence[tuple[Statement, Effect]]
    repeated: bool
    """A statement about it was known already: its last event may be owed."""


class ReceiptStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql: Final = load_queries("receipts")

    async def apply(self, statements: Sequence[Statement], now: datetime) -> Sequence[Delivery]:
        """Apply statements in order, each once, in one transaction.

        Returns, in key order, the deliveries whose event must be published: those that changed, and those of which a
        statement had been applied before, for that run may have died before it published.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            fresh = await self._first_time(connection, statements, now)
            rows = await self._lock(connection, statements)
            changes = _decide(rows, statements, fresh, now)
            await self._write(connection, changes, now)
            await self._suppress(connection, [each for each in statements if each.event_hash in fresh])
        _count(statements, fresh, changes, rows)
        return [
            change.after
            for change in changes
            if change.after is not change.before or (change.repeated and change.after.status in SETTLED)
        ]

    async def _first_time(
        self, connection: Connection, statements: Sequence[Statement], now: datetime
    ) -> frozenset[bytes]:
        unique = {(each.provider, each.event_hash) for each in statements}
        rows = await connection.fetch(
            self._sql["apply_once"], [provider for provider, _ in unique], [key for _, key in unique], now
        )
        return frozenset(row["event_key"] for row in rows)

    async def _lock(self, connection: Connection, statements: Sequence[Statement]) -> Mapping[DeliveryKey, Delivery]:
        keys = sorted({each.receipt.key for each in statements})
        rows = await connection.fetch(
            self._sql["lock_deliveries"], *_columns(keys), keys[0].notification_id, keys[-1].notification_id
        )
        found = {}
        for row in rows:
            key = DeliveryKey(row["notification_id"], row["channel"], row["target_key"])
            found[key] = Delivery(
                key=key,
                status=DeliveryStatus(row["status"]),
                reason=None if row["reason"] is None else Reason(row["reason"]),
                attempt=row["attempt"],
                provider=row["provider"],
                updated_at=row["updated_at"],
            )
        return found

    async def _write(self, connection: Connection, changes: Sequence[_Change], now: datetime) -> None:
        settled = [change for change in changes if change.after is not change.before]
        if settled:
            after = [change.after for change in settled]
            keys = [each.key for each in after]
            await connection.execute(
                self._sql["settle"],
                *_columns(keys),
                [each.status for each in after],
                [each.reason for each in after],
                [each.attempt for each in after],
                [each.provider for each in after],
                [each.provider_message_id for each in after],
                now,
                keys[0].notification_id,
                keys[-1].notification_id,
                [change.before.status for change in settled],
            )
            await connection.execute(self._sql["close_open"], *_columns(keys))
            await clear_requests(connection, keys)
        effects = [pair for change in changes for pair in change.effects]
        await self._park(connection, [statement for statement, effect in effects if effect is Effect.PARKED])
        await self._log(connection, [statement for statement, _ in effects])

    async def _park(self, connection: Connection, parked: Sequence[Statement]) -> None:
        if not parked:
            return
        await connection.execute(
            self._sql["park"],
            [uuid5(_PARKED_NAMESPACE, each.event_hash.hex()) for each in parked],
            *_columns([each.receipt.key for each in parked]),
            [each.receipt.attempt for each in parked],
            [each.receipt.kind for each in parked],
            [each.provider for each in parked],
            [each.receipt.detail[:256] for each in parked],
            [each.received_at for each in parked],
        )

    async def _log(self, connection: Connection, statements: Sequence[Statement]) -> None:
        if not statements:
            return
        await connection.execute(
            self._sql["log_receipts"],
            [each.receipt.key.notification_id for each in statements],
            [each.log_id for each in statements],
            [each.receipt.key.channel for each in statements],
            [each.receipt.key.target_key for each in statements],
            [each.receipt.attempt for each in statements],
            [each.receipt.kind for each in statements],
            [each.provider for each in statements],
            [each.receipt.detail[:256] for each in statements],
        )

    async def _suppress(self, connection: Connection, statements: Sequence[Statement]) -> None:
        """Whatever the delivery's state, and even if its row is gone: the recipient said stop."""
        asked = {
            (each.receipt.key.channel, each.receipt.key.target_key): each.receipt.suppress
            for each in statements
            if each.receipt.suppress is not None
        }
        if asked:
            await connection.execute(
                self._sql["suppress"],
                [channel for channel, _ in asked],
                [address_key for _, address_key in asked],
                list(asked.values()),
            )


def _decide(
    rows: Mapping[DeliveryKey, Delivery], statements: Sequence[Statement], fresh: frozenset[bytes], now: datetime
) -> list[_Change]:
    by_key: dict[DeliveryKey, list[Statement]] = {}
    repeated: set[DeliveryKey] = set()
    seen: set[bytes] = set()
    for statement in statements:
        key = statement.receipt.key
        if key not in rows or statement.event_hash in seen:
            continue
        seen.add(statement.event_hash)
        by_key.setdefault(key, [])
        if statement.event_hash in fresh:
            by_key[key].append(statement)
        elif statement.receipt.kind is not ReceiptKind.PROGRESS:
            repeated.add(key)
    changes = []
    for key in sorted(by_key):
        after, effects = apply_all(rows[key], by_key[key], now)
        changes.append(_Change(rows[key], after, effects, key in repeated))
    return changes


def _count(
    statements: Sequence[Statement],
    fresh: frozenset[bytes],
    changes: Sequence[_Change],
    rows: Mapping[DeliveryKey, Delivery],
) -> None:
    for statement, effect in (pair for change in changes for pair in change.effects):
        RECEIPTS.labels(statement.provider, effect).inc()
    for statement in statements:
        if statement.receipt.key not in rows:
            RECEIPTS.labels(statement.provider, "no_delivery").inc()
        elif statement.event_hash not in fresh:
            RECEIPTS.labels(statement.provider, "repeated").inc()


def _columns(keys: Sequence[DeliveryKey]) -> tuple[list[UUID], list[str], list[bytes]]:
    return [key.notification_id for key in keys], [key.channel for key in keys], [key.target_key for key in keys]
