"""Notification types as they are administered: one at a time, with a revision that counts their changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

import asyncpg

from shared.core.catalogue import CONTENT_WINDOW, NotificationType, default_fallback, default_quiet_hours
from shared.core.quiet_hours import QuietHours
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import Category, MessageClass, Promise


@dataclass(frozen=True, slots=True)
class NewType:
    """A checked type. retention_days: how long what was said of it is kept, at most 90."""

    type: NotificationType
    retention_days: int = 90


@dataclass(frozen=True, slots=True)
class StoredType:
    definition: NewType
    revision: int
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PutType:
    """What a write did: created, or changed to this revision."""

    created: bool
    revision: int


async def stored_type(connection: Connection, name: str) -> StoredType | None:
    row = await connection.fetchrow(load_queries("notification_type")["one"], name)
    return None if row is None else _stored(row)


async def list_types(connection: Connection, *, after: str, limit: int) -> Sequence[StoredType]:
    """At most `limit` types behind the name `after`, by name."""
    return [_stored(row) for row in await connection.fetch(load_queries("notification_type")["page"], after, limit)]


async def all_types(connection: Connection) -> Sequence[StoredType]:
    return [_stored(row) for row in await connection.fetch(load_queries("notification_type")["all"])]


async def put_type(connection: Connection, new: NewType) -> PutType | None:
    """Create or change it; None if it was so already. What a definition left to its category's default is stored as
    what that means today. asyncpg's ForeignKeyViolationError for a sender profile that is not there.
    """
    row = await connection.fetchrow(load_queries("notification_type")["put"], *_columns(new))
    return None if row is None else PutType(row["created"], row["revision"])


async def remove_type(connection: Connection, name: str) -> bool:
    """False if there is none. asyncpg's ForeignKeyViolationError while an event mapping names it."""
    status = await connection.execute(load_queries("notification_type")["remove"], name)
    return status == "DELETE 1"


def type_of(row: asyncpg.Record) -> NotificationType:
    """A row of notification_types. NULL is the category's default, {} is no quiet hours."""
    category = Category(row["category"])
    window, fallback = row["content_window_seconds"], row["fallback_channels"]
    return NotificationType(
        name=row["type"],
        category=category,
        message_class=MessageClass(row["message_class"]),
        default_channels=tuple(row["default_channels"]),
        ttl=timedelta(seconds=row["ttl_seconds"]),
        promises={channel: Promise(promise) for channel, promise in row["promises"].items()},
        sender_profile=row["sender_profile"],
        quiet_hours=stored_quiet_hours(row["quiet_hours"], category),
        content_window=CONTENT_WINDOW if window is None else timedelta(seconds=window),
        fallback_channels=default_fallback(category) if fallback is None else tuple(fallback),
        max_sms_segments=row["max_sms_segments"],
        refuse_sms_overflow=row["sms_overflow"] == "refuse",
        parameter_schema=row["parameter_schema"],
        sample=row["sample"],
    )


def stored_quiet_hours(stored: dict[str, Any] | None, category: Category) -> QuietHours | None:
    if stored is None:
        return default_quiet_hours(category)
    if not stored:
        return None
    return QuietHours(
        time.fromisoformat(stored["start"]), time.fromisoformat(stored["end"]), timedelta(seconds=stored["spreadSec"])
    )


def _columns(new: NewType) -> tuple[Any, ...]:
    entry, quiet = new.type, new.type.quiet_hours
    return (
        *(entry.name, entry.category, entry.message_class, entry.default_channels),
        *(int(entry.ttl.total_seconds()), dict(entry.promises), new.retention_days, entry.sender_profile),
        {}
        if quiet is None
        else {
            "start": quiet.start.isoformat("minutes"),
            "end": quiet.end.isoformat("minutes"),
            "spreadSec": int(quiet.spread.total_seconds()),
        },
        *(int(entry.content_window.total_seconds()), entry.fallback_channels, entry.max_sms_segments),
        "refuse" if entry.refuse_sms_overflow else "warn",
        *(entry.parameter_schema, dict(entry.sample)),
    )


def _stored(row: asyncpg.Record) -> StoredType:
    return StoredType(NewType(type_of(row), row["retention_days"]), row["revision"], row["updated_at"])
