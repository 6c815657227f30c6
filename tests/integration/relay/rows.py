"""Rows that the relay's and the projector's tests begin with, and what they read of them afterwards."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from shared.core.event import delivery_event
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.postgres.pool import Pool
from shared.wire.channel import MessageClass, Promise

TARGET = b"\x07" * 32


async def add_notification(pool: Pool, **changed: Any) -> UUID:
    """One live notification, ACCEPTED, of an hour's life; returns its id."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "id": new_id(),
        "application_id": 1,
        "event_id": "order-98213",
        "user_id": 42,
        "type": "ORDER_SHIPPED",
        "message_class": MessageClass.TX,
        "mode": "live",
        "state": NotificationState.ACCEPTED,
        "expires_at": now + timedelta(hours=1),
        "created_at": now,
    } | changed
    await _insert(pool, "ulak.notifications", row)
    identifier: UUID = row["id"]
    return identifier


async def add_delivery(pool: Pool, notification_id: UUID, **changed: Any) -> DeliveryKey:
    """One PENDING, due push delivery; returns its key."""
    now = datetime.now(UTC)
    row: dict[str, Any] = {
        "notification_id": notification_id,
        "channel": "PUSH",
        "target_key": TARGET,
        "status": DeliveryStatus.PENDING,
        "message_class": MessageClass.TX,
        "promise": Promise.AT_LEAST_ONCE,
        "mode": "live",
        "next_attempt_at": now - timedelta(hours=1),
        "expires_at": now + timedelta(hours=1),
        "created_at": now,
        "updated_at": now,
    } | changed
    await _insert(pool, "ulak.deliveries", row)
    return DeliveryKey(notification_id, row["channel"], row["target_key"])


async def add_request(pool: Pool, notification_id: UUID, *, purpose: Purpose = Purpose.EMAIL) -> None:
    """What the notification's e-mails say: a request that is rendered when it is sent, or a rendered mail."""
    row = {"notification_id": notification_id, "channel": "EMAIL", "sealed": b"sealed", "purpose": purpose}
    await _insert(pool, "ulak.contents", row | {"locale": "en", "template_version": 1})


async def kept(pool: Pool, notification_id: UUID) -> bool:
    """Whether what is to be said is still stored."""
    found = await pool.fetchval(
        "SELECT sealed IS NOT NULL FROM ulak.contents WHERE notification_id = $1", notification_id
    )
    return bool(found)


async def add_claimed(
    pool: Pool, *, lease_until: datetime | None = None, notification: dict[str, Any] | None = None, **changed: Any
) -> tuple[DeliveryKey, UUID]:
    """A delivery that a worker has claimed, with its lease (a minute over unless said); returns key and claim."""
    claim = new_id()
    until = lease_until or datetime.now(UTC) - timedelta(minutes=1)
    notification_id = await add_notification(pool, **{"state": NotificationState.DECIDED} | (notification or {}))
    key = await add_delivery(
        pool,
        notification_id,
        **{"status": DeliveryStatus.SENDING, "claim_id": claim, "lease_until": until, "provider": "fcm"} | changed,
    )
    await _insert(
        pool,
        "ulak.leases",
        {"claim_id": claim, "lane": "push-tx", "lease_until": until, "notification_ids": [notification_id]},
    )
    return key, claim


async def add_outbox(pool: Pool, count: int = 1, **changed: Any) -> list[UUID]:
    """Due rows for topic `orders`; payload is the row's number."""
    ids: list[UUID] = []
    for number in range(count):
        row: dict[str, Any] = {
            "id": new_id(),
            "message_class": MessageClass.TX,
            "topic": "orders",
            "key": b"order-98213",
            "payload": str(number).encode(),
            "headers": {},
            "available_at": datetime.now(UTC) - timedelta(seconds=1),
        } | changed
        await _insert(pool, "ulak.outbox", row)
        ids.append(row["id"])
    return ids


async def delivery(pool: Pool, key: DeliveryKey) -> asyncpg.Record:
    row = await pool.fetchrow(
        "SELECT * FROM ulak.deliveries WHERE notification_id = $1 AND channel = $2 AND target_key = $3",
        key.notification_id,
        key.channel,
        key.target_key,
    )
    assert row is not None
    return row


def retold(row: asyncpg.Record) -> bytes:
    """The event of a settled row as whoever finds it settled tells it again: of nothing but what the row holds."""
    _, value, _ = delivery_event(
        DeliveryKey(row["notification_id"], row["channel"], row["target_key"]),
        status=DeliveryStatus(row["status"]),
        reason=None if row["reason"] is None else Reason(row["reason"]),
        attempt=row["attempt"],
        provider=row["provider"],
        at=row["updated_at"],
    )
    return value


async def count(pool: Pool, table: str) -> int:
    found: int = await pool.fetchval(f"SELECT count(*) FROM ulak.{table}")
    return found


async def outbox(pool: Pool) -> Sequence[asyncpg.Record]:
    return await pool.fetch("SELECT * FROM ulak.outbox ORDER BY available_at, id")


async def _insert(pool: Pool, table: str, row: dict[str, Any]) -> None:
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await pool.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())
