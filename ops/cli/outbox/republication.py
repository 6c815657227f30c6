"""Published events of one source, back in its outbox: walked in the order they were published in, at a pace."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ops.cli.age import Moment
from ops.cli.outbox.cloud_event import attributes, payload_of
from ops.cli.outbox.source import look
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.wire.channel import MessageClass

_SQL: Final = load_queries("outbox_cli")
_PAGE: Final = 500
_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events: published from `since` on and before `until` (None: now), of this topic and this type."""

    since: Moment
    until: Moment | None = None
    topic: str | None = None
    type_name: str | None = None


@dataclass(slots=True)
class Republished:
    """Events by topic and class; in a dry run what would be. missed: taken back by somebody else meanwhile, or waiting
    in the outbox already. unreadable: sealed, and asked for by a type that this machine's ring does not tell.

    first, last: when the first and the last of them were published.
    """

    events: Counter[tuple[str, MessageClass]] = field(default_factory=Counter)
    missed: int = 0
    unreadable: int = 0
    first: datetime | None = None
    last: datetime | None = None

    def body(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "count": self.events.total(),
            "topics": [
                {"topic": topic, "class": message_class.label, "count": count}
                for (topic, message_class), count in sorted(self.events.items())
            ],
            "missed": self.missed,
            "unreadable": self.unreadable,
            "firstAt": self.first and self.first.isoformat(),
            "lastAt": self.last and self.last.isoformat(),
        }


async def republish_events(
    connection: Connection,
    wanted: Wanted,
    ring: KeyRing | None,
    *,
    rate: int,
    yes: bool,
    progress: Callable[[float], None],
) -> Republished:
    """At most `rate` events a second, in batches that are a transaction each. progress is told the part that is done.

    Times are the source's. What the relay publishes meanwhile is newer than the walk's end and is not met again.
    """
    [(now,)] = await look(connection, "SELECT now()")
    begin = wanted.since.seen_from(now)
    end = now if wanted.until is None else min(now, wanted.until.seen_from(now))
    found = Republished()
    after: tuple[datetime, UUID] = (begin, _FIRST)
    batch = min(rate, _PAGE)
    while rows := await look(connection, _SQL["published_page"], *after, end, wanted.type_name is not None, _PAGE):
        matching = [row for row in rows if _matches(row, wanted, ring, found)]
        for start in range(0, len(matching), batch):
            began = time.monotonic()
            some = matching[start : start + batch]
            brought = await _bring(connection, some) if yes else {row["id"] for row in some}
            _count(found, [row for row in some if row["id"] in brought])
            found.missed += len(some) - len(brought)
            if yes:  # a slow step is not made up for by a burst
                await asyncio.sleep(max(0.0, began + len(some) / rate - time.monotonic()))
        after = (rows[-1]["published_at"], rows[-1]["id"])
        progress((after[0] - begin) / (end - begin))
    return found


async def _bring(connection: Connection, rows: Sequence[Any]) -> set[UUID]:
    """Those that are in the outbox by it."""
    ids = [row["id"] for row in rows]
    async with connection.transaction():
        changed = await connection.fetch(_SQL["publish_again"], ids, rows[0]["published_at"], rows[-1]["published_at"])
    return {row["id"] for row in changed}


def _matches(row: Any, wanted: Wanted, ring: KeyRing | None, found: Republished) -> bool:
    if wanted.topic is not None and row["topic"] != wanted.topic:
        return False
    if wanted.type_name is None:
        return True
    payload = payload_of(row["id"], row["payload"], ring, sealed=row["sealed"])
    told = attributes(row["headers"], payload)
    if payload is None and not told:
        found.unreadable += 1
    return told.get("type") == wanted.type_name


def _count(found: Republished, rows: Sequence[Any]) -> None:
    found.events.update((row["topic"], MessageClass(row["message_class"])) for row in rows)
    if rows:
        found.first = found.first or rows[0]["published_at"]
        found.last = rows[-1]["published_at"]
