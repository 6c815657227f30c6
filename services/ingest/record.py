"""What is stored of a notification, as the reading calls need it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from shared.core.address import masked
from shared.core.control import Pause, PauseKind
from shared.core.identifier import NOTIFICATION, created_at, public_id
from shared.core.lifecycle import DeliveryStatus
from shared.core.sealing import Purpose, SealError, UnknownKeyError, open_sealed
from shared.decision.wording import own_detail
from shared.postgres.errors import translated
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource
from shared.wire.channel import Channels, MessageClass

_MAX_LOG = 1000


@dataclass(frozen=True, slots=True)
class NotificationRecord:
    """One row; due_at: until when it waits, while it is DEFERRED."""

    id: UUID
    event_id: str
    user_id: str | None
    type: str
    state: str
    message_class: MessageClass
    mode: str
    created_at: datetime
    event_time: datetime | None
    send_at: datetime | None
    expires_at: datetime
    cancelled_at: datetime | None
    business_key: str | None
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One delivery; target is masked, None where a channel was skipped before it had one.

    detail: what its last attempt met, in stored words. pause: what holds it now; None where nothing does.
    """

    channel: str
    target_key: bytes
    target: str | None
    status: str
    reason: str | None
    provider: str | None
    attempts: int
    next_attempt_at: datetime
    cancel_requested: bool
    created_at: datetime
    updated_at: datetime
    detail: str | None = None
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One line of `delivery_log`; `at` is its id's time."""

    at: datetime
    kind: str
    channel: str
    target_key: bytes
    attempt: int | None
    result: str
    reason: str | None
    provider: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One notification that an event id led to: its mapping (type, or type and role) and id."""

    mapping: str
    notification_id: UUID


class NotificationReader:
    """Reads; application None stands for a caller that may read every application's."""

    def __init__(self, pool: Pool, rings: RingSource, channels: Channels, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._channels = channels
        self._rings = rings
        self._clock = clock
        self._queries = load_queries("ingest")

    async def notification(self, notification_id: UUID, application: int | None) -> NotificationRecord | None:
        with translated():
            row = await self._pool.fetchrow(self._queries["notification"], notification_id, application)
        if row is None:
            return None
        return NotificationRecord(
            id=row["id"],
            event_id=row["event_id"],
            user_id=row["external_id"],
            type=row["type"],
            state=row["state"],
            message_class=MessageClass(row["message_class"]),
            mode=row["mode"],
            created_at=row["created_at"],
            event_time=row["event_time"],
            send_at=row["send_at"],
            expires_at=row["expires_at"],
            cancelled_at=row["cancelled_at"],
            business_key=row["business_key"],
            due_at=row["due_at"],
        )

    async def of_event(self, application: int, event_id: str, type_name: str | None) -> list[Event]:
        """The notifications of an event id, as long as dedup rows are kept; by mapping."""
        if "\x00" in event_id or "\x00" in (type_name or ""):
            return []  # PostgreSQL's text cannot even hold it, so nothing was ever stored under it
        with translated():
            rows = await self._pool.fetch(
                self._queries["notification_ids_of_event"], application, event_id, type_name, self._clock()
            )
        return [Event(row["mapping"], row["notification_id"]) for row in rows]

    async def deliveries(self, notification_id: UUID) -> list[DeliveryRecord]:
        with translated():
            rows = await self._pool.fetch(self._queries["deliveries"], notification_id)
            waits = any(row["status"] == DeliveryStatus.PENDING for row in rows)
            pauses = await self._pool.fetch(self._queries["pauses_of"], notification_id) if waits else []
        held = {(row["channel"], row["target_key"]): _pause(row) for row in pauses if row["channel"]}
        lanes = {row["key"]: _pause(row) for row in pauses if not row["channel"]}
        return [
            DeliveryRecord(
                channel=row["channel"],
                target_key=row["target_key"],
                target=self._target(row),
                status=row["status"],
                reason=row["reason"],
                provider=row["provider"],
                attempts=row["attempt"],
                next_attempt_at=row["next_attempt_at"],
                cancel_requested=row["cancel_requested"],
                created_at=row["created_at"],
                updated_at=row["updated_at"],
                detail=row["last_error"],
                pause=held.get((row["channel"], row["target_key"])) or lanes.get(self._lane(row)),
            )
            for row in rows
        ]

    def _lane(self, row: asyncpg.Record) -> str | None:
        """What an open delivery goes through; None where it waits for nothing."""
        spec = self._channels.find(row["channel"])
        if row["status"] != DeliveryStatus.PENDING or spec is None or not spec.is_sent:
            return None
        return spec.lane(MessageClass(row["message_class"])).name

    async def log(self, notification_id: UUID) -> list[LogRecord]:
        """The first 1,000 lines, oldest first."""
        with translated():
            rows = await self._pool.fetch(self._queries["delivery_log"], notification_id, _MAX_LOG)
        return [
            LogRecord(
                at=created_at(row["id"]),
                kind=row["kind"],
                channel=row["channel"],
                target_key=row["target_key"],
                attempt=row["attempt"],
                result=row["result"],
                reason=row["reason"],
                provider=row["provider"],
                detail=row["detail"],
            )
            for row in rows
        ]

    def _target(self, row: asyncpg.Record) -> str | None:
        """Masked; a value that does not open says so, because the rest of the answer is still worth having."""
        if row["address_sealed"] is None:
            return None
        try:
            address = self._open(row["target_key"], row["address_sealed"])
        except SealError:
            return "sealed"
        return masked(row["channel"], address)

    def _open(self, key: bytes, sealed: bytes) -> str:
        try:
            return open_sealed(self._rings.ring, Purpose.ADDRESS, key, sealed).decode()
        except UnknownKeyError:
            if not self._rings.refresh():
                raise
            return open_sealed(self._rings.ring, Purpose.ADDRESS, key, sealed).decode()


def notification_body(record: NotificationRecord, deliveries: list[DeliveryRecord]) -> dict[str, Any]:
    """The answer of `GET /internal/v1/notifications/{id}` (api.md, Shapes); what is not known is left out."""
    body: dict[str, Any] = {
        "notificationId": public_id(NOTIFICATION, record.id),
        "eventId": record.event_id,
        "userId": record.user_id,
        "type": record.type,
        "state": record.state,
        "createdAt": record.created_at,
        "expiresAt": record.expires_at,
    }
    optional = {"sendAt": record.send_at, "cancelledAt": record.cancelled_at}
    body |= {name: value for name, value in optional.items() if value is not None}
    body["deliveries"] = [_delivery_body(delivery) for delivery in deliveries]
    return body


def _pause(row: asyncpg.Record) -> Pause:
    return Pause(row["id"], PauseKind(row["kind"]), row["key"], row["note"], row["paused_by"], row["paused_at"])


def _pause_body(pause: Pause) -> dict[str, Any]:
    return {
        "kind": pause.kind,
        "name": pause.name,
        "since": pause.paused_at,
        "by": pause.paused_by,
        "reason": pause.note,
    }


def _delivery_body(delivery: DeliveryRecord) -> dict[str, Any]:
    body = {
        "channel": delivery.channel,
        "target": delivery.target,
        "status": delivery.status,
        "reason": delivery.reason,
        "detail": own_detail(delivery.reason, delivery.detail),
        "provider": delivery.provider,
        "attempts": delivery.attempts,
        "pause": None if delivery.pause is None else _pause_body(delivery.pause),
        "updatedAt": delivery.updated_at,
    }
    return {name: value for name, value in body.items() if value is not None or name == "target"}
