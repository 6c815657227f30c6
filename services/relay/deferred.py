"""Deferred notifications whose time has come: asked for again until they are decided."""

from collections.abc import Sequence
from typing import Final

from services.relay.hints import bounds, request_record
from shared.core.lifecycle import NotificationState
from shared.kafka.record import Publisher
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import SWEPT

_BATCH: Final = 500
_OPEN: Final[Sequence[str]] = (NotificationState.ACCEPTED, NotificationState.DEFERRED)


class DeferredReleaser:
    """Publishes a hint per due row and pushes the row ahead; the row goes once its notification is decided.

    So the row is what remembers: a hint lost by Kafka, or by a kill -9 here, is repeated after `visibility_sec`.
    """

    def __init__(self, pool: Pool, publisher: Publisher, *, visibility_sec: float) -> None:
        self._pool = pool
        self._publisher = publisher
        self._visibility_sec = visibility_sec
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """One batch; True if it was full."""
        due = await self._pool.fetch(self._sql["claim_deferred"], _BATCH, self._visibility_sec)
        if not due:
            return False
        ids = sorted({row["notification_id"] for row in due})
        rows = await self._pool.fetch(self._sql["load_notifications"], ids, *bounds(ids))
        waiting = {row["id"]: row for row in rows if row["state"] in _OPEN}
        await self._publisher.publish([request_record(row) for row in waiting.values()])
        SWEPT.labels("deferred").inc(len(waiting))
        settled = [row["id"] for row in due if row["notification_id"] not in waiting]
        if settled:
            await self._pool.execute(self._sql["remove_deferred"], settled)
        return len(due) == _BATCH
