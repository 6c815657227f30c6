"""What the relay measures of the outbox: its age by class, and what slows it down (O6)."""

from typing import Final

from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import OLDEST_SNAPSHOT, OUTBOX_DEAD_ROWS, OUTBOX_OLDEST
from shared.wire.channel import MessageClass


class Gauges:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """Measure once; never more at once."""
        rows = await self._pool.fetch(self._sql["oldest_due"], [int(each) for each in MessageClass])
        ages = {row["message_class"]: row["age_sec"] for row in rows}
        for message_class in MessageClass:
            OUTBOX_OLDEST.labels(message_class.label).set(ages.get(int(message_class), 0.0))
        pressure = await self._pool.fetchrow(self._sql["vacuum_pressure"])
        assert pressure is not None  # a SELECT of two scalars
        OLDEST_SNAPSHOT.set(pressure["oldest_snapshot_sec"])
        OUTBOX_DEAD_ROWS.set(pressure["dead_rows"])
        return False
