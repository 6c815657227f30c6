"""What the relay measures of a source: whether it answers, its outbox's age by class, and what slows it down (O6)."""

from typing import Final

from services.relay.source import Source
from shared.postgres.query import load_queries
from shared.runtime.metrics import OLDEST_SNAPSHOT, OUTBOX_DEAD_ROWS, OUTBOX_OLDEST, OUTBOX_SET_ASIDE, SOURCE_UP
from shared.wire.channel import MessageClass


class Gauges:
    """Of one source. While it does not answer, `ulak_relay_source_up` is 0 and the others keep their last values."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """Measure once; never more at once."""
        up = SOURCE_UP.labels(self._source.name)
        try:
            await self._measure()
        except BaseException:
            up.set(0)
            raise
        up.set(1)
        return False

    async def _measure(self) -> None:
        name = self._source.name
        async with self._source.pool.acquire() as connection, connection.transaction():
            rows = await connection.fetch(self._sql["oldest_due"], [int(each) for each in MessageClass])
            pressure = await connection.fetchrow(self._sql["vacuum_pressure"])
        ages = {row["message_class"]: row["age_sec"] for row in rows}
        for message_class in MessageClass:
            OUTBOX_OLDEST.labels(name, message_class.label).set(ages.get(int(message_class), 0.0))
        assert pressure is not None  # a SELECT of scalars
        OUTBOX_SET_ASIDE.labels(name).set(pressure["set_aside"])
        OLDEST_SNAPSHOT.labels(name).set(pressure["oldest_snapshot_sec"])
        OUTBOX_DEAD_ROWS.labels(name).set(pressure["dead_rows"])
