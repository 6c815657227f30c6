"""What a source keeps of its outbox for a while, removed in small batches: published rows, idempotency keys."""

from typing import Final

from services.relay.source import Source
from shared.postgres.query import load_queries
from shared.runtime.metrics import UPKEEP_REMOVED

KEEP_KEYS_SEC: Final = 7 * 24 * 3600.0
"""How long the same idempotency key is the same event (data.md, Identity)."""
_BATCH: Final = 1000
_LOCK: Final = 0x756C616B_11  # "ulak", 17: one relay at a time prunes a source


class OutboxPruner:
    """Of one source. A relay that finds another at it leaves it alone."""

    def __init__(self, source: Source, *, keep_published_sec: float) -> None:
        self._source = source
        self._keep_sec: Final = {"outbox_published": keep_published_sec, "outbox_keys": KEEP_KEYS_SEC}
        sql = load_queries("relay")
        self._sql: Final = {"outbox_published": sql["prune_published"], "outbox_keys": sql["prune_outbox_keys"]}

    async def round(self) -> bool:
        """One batch of each table. True if one was full."""
        more = False
        for table in self._sql:
            more = await self._prune(table) or more
        return more

    async def _prune(self, table: str) -> bool:
        async with self._source.pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
                return False
            status = await connection.execute(self._sql[table], self._keep_sec[table], _BATCH)
        removed = int(status.split()[-1])
        UPKEEP_REMOVED.labels(table).inc(removed)
        return removed == _BATCH
