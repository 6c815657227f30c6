"""Rows of the router's tables as values, and plans as the records that COPY takes."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from services.router.notification import NewDelivery, Notification, Owed, Plan
from shared.core.inbox import NewEntry
from shared.core.lifecycle import DeliveryStatus, NotificationState, Reason
from shared.core.reference import DeliveryKey
from shared.core.sealing import Purpose
from shared.decision.facts import Mode
from shared.facts.subject import Recipient
from shared.wire.channel import MessageClass

DELIVERIES: Final = (
    *("notification_id", "channel", "target_key", "address_sealed", "platform", "app_id", "status", "reason"),
    *("message_class", "promise", "mode", "next_attempt_at", "last_error", "expires_at", "created_at", "updated_at"),
    *("marketing", "send_until"),
)
CONTENTS: Final = ("notification_id", "channel", "sealed", "purpose", "locale", "template_version")
LOG: Final = ("notification_id", "id", "kind", "channel", "target_key", "result", "reason", "detail")
NOTIFICATIONS: Final = (
    *("id", "application_id", "event_id", "user_id", "type", "message_class", "mode", "state", "params_sealed"),
    *("locale", "business_key", "event_time", "expires_at", "traceparent", "created_at"),
)


def letter_fingerprint(notification_id: UUID, channel: str) -> bytes:
    """SHA-256 of delivery and attempt; the router's are attempt 0 of a whole channel."""
    return hashlib.sha256(f"{notification_id}|{channel}||0".encode()).digest()


def to_notification(row: asyncpg.Record) -> Notification:
    return Notification(
        id=row["id"],
        application_id=row["application_id"],
        event_id=row["event_id"],
        user_id=row["user_id"],
        type=row["type"],
        message_class=MessageClass(row["message_class"]),
        mode=Mode(row["mode"]),
        state=NotificationState(row["state"]),
        recipient=to_recipient(row),
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


def to_recipient(row: asyncpg.Record) -> Recipient:
    return Recipient.stored(
        row["email_key"], row["email_sealed"], row["phone_key"], row["phone_sealed"], row["time_zone"]
    )


def to_owed(row: asyncpg.Record) -> Owed:
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


def notification_record(plan: Plan) -> tuple[Any, ...]:
    n = plan.notification
    return (
        *(n.id, n.application_id, n.event_id, n.user_id, n.type, n.message_class, n.mode, plan.becomes),
        *(n.params_sealed, n.locale, n.business_key, n.event_time, n.expires_at, n.traceparent, n.created_at),
    )


def delivery_records(plan: Plan, now: datetime) -> Iterable[tuple[Any, ...]]:
    n = plan.notification
    for d in sorted(plan.deliveries, key=_place):  # in key order, as all that touches deliveries
        yield (
            *(n.id, d.key.channel, d.key.target_key, d.address_sealed, d.platform, d.app_id, d.status, d.reason),
            *(n.message_class, d.promise, n.mode, now, d.last_error, n.expires_at, now, now),
            *(d.marketing, d.send_until),
        )


def _place(delivery: NewDelivery) -> tuple[str, bytes]:
    return delivery.key.channel, delivery.key.target_key


def content_records(plan: Plan) -> Iterable[tuple[Any, ...]]:
    for c in plan.contents:
        yield (plan.notification.id, c.channel, c.sealed, Purpose.CONTENT, c.locale, c.template_version)


def inbox_entries(plan: Plan, now: datetime) -> Iterable[NewEntry]:
    """What a live notification leaves in its user's inbox; test keys reach nobody (semantics.md section 3)."""
    n = plan.notification
    for c in plan.contents:
        if c.inbox_sealed is not None and n.user_id is not None and n.mode is not Mode.TEST:
            yield NewEntry(n.user_id, n.id, now, n.type, c.inbox_sealed, c.locale)


def log_records(plan: Plan) -> Iterable[tuple[Any, ...]]:
    for e in plan.log:
        yield (plan.notification.id, e.id, "verdict", e.channel, e.target_key, e.result, e.reason, e.detail)
