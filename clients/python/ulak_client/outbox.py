"""Enqueue an event into the outbox of your own database. Never commits, never connects."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

TOPIC: Final = "domain-events"
_INSERT: Final = "INSERT INTO ulak.outbox (id, topic, key, payload) VALUES ({})"


@dataclass(frozen=True, slots=True)
class Event:
    """A fact, as a CloudEvent 1.0.

    id is the idempotency key together with source: the same fact must always have the same id. key keeps the events
    of one thing (an order) together; it defaults to the id. time is when it happened, with its offset.
    """

    id: str
    source: str
    type: str
    data: Mapping[str, Any]
    key: str | None = None
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        for name in ("id", "source", "type"):
            if not getattr(self, name):
                raise ValueError(f"an event needs a non-empty {name}")
        if self.time.tzinfo is None:
            raise ValueError("an event's time needs an offset, e.g. datetime.now(UTC)")

    def payload(self) -> bytes:
        """The event as structured CloudEvents JSON; TypeError if `data` is not JSON."""
        return json.dumps(
            {
                "specversion": "1.0",
                "id": self.id,
                "source": self.source,
                "type": self.type,
                "time": self.time.isoformat(),
                "datacontenttype": "application/json",
                "data": dict(self.data),
            },
            ensure_ascii=False,
        ).encode()

    def _row(self) -> tuple[uuid.UUID, str, bytes, bytes]:
        return uuid.uuid4(), TOPIC, (self.key or self.id).encode(), self.payload()


class AsyncConnection(Protocol):
    """What is used of an asyncpg connection."""

    async def execute(self, query: str, *args: Any) -> Any: ...


class SyncConnection(Protocol):
    """What is used of a psycopg 3 connection or cursor."""

    def execute(self, query: Any, params: Any = None) -> Any: ...


async def enqueue_event(connection: AsyncConnection, event: Event) -> str:
    """Insert through an asyncpg connection, in whatever transaction is open on it; returns the event's id."""
    await connection.execute(_INSERT.format("$1, $2, $3, $4"), *event._row())  # noqa: SLF001  same module
    return event.id


def enqueue_event_sync(connection: SyncConnection, event: Event) -> str:
    """The same through a psycopg 3 connection or cursor."""
    connection.execute(_INSERT.format("%s, %s, %s, %s"), event._row())  # noqa: SLF001  same module
    return event.id
