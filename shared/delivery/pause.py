"""What a pause stops: a paused lane keeps its hints, under any other pause a delivery waits in `deferred`.

Nothing of it costs anything while nothing is paused. What is written comes before the offset moves, and a hint that
comes again after a crash finds its delivery held already, or let go of.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from shared.core.control import ONLY_BY_LANE, Controls, Pause
from shared.core.lifecycle import Reason
from shared.delivery.batch import Batch
from shared.delivery.consequence import Consequences, Line
from shared.delivery.row import DeliveryRow, Owed
from shared.delivery.store import in_key_order
from shared.kafka.record import Publisher
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import PAUSE_HELD
from shared.wire.channel import Lane

_SQL: Final = load_queries("pause")
_DETAIL_CHARS: Final = 256


class Pauses:
    """Of one lane. Safe for several batches at once. Raises what asyncpg raises, before anything was published."""

    def __init__(self, lane: Lane, *, pool: Pool, watch: ControlWatch, publisher: Publisher) -> None:
        self._lane = lane
        self._pool = pool
        self._watch = watch
        self._publisher = publisher
        self._consequences = Consequences(lane)

    @property
    def controls(self) -> Controls:
        """What a batch that begins now goes by."""
        return self._watch.current

    @property
    def lane_paused(self) -> bool:
        """Whether the lane's topics rest."""
        return bool(self._watch.current.pauses) and self._watch.current.lane(self._lane.name) is not None

    def stops(self, provider: str) -> bool:
        """Whether a send that has not begun must not begin, although its delivery is claimed."""
        controls = self._watch.current
        return bool(controls.pauses) and (
            controls.lane(self._lane.name) is not None or controls.provider(provider, self._lane.name) is not None
        )

    async def newer(self, controls: Controls) -> Controls:
        """What is said now that a claim has found these out of date."""
        return await self._watch.other_than(controls.revision)

    async def let_through(self, batch: Batch, rows: Sequence[DeliveryRow], controls: Controls) -> Sequence[DeliveryRow]:
        """Those of the rows that neither their lane nor their notification holds; the others are kept."""
        if not rows or not controls.pauses:
            return rows
        if controls.lane(self._lane.name) is not None:
            await self._keep_hints(batch, rows)
            return ()
        if not controls.holding or self._lane.name in ONLY_BY_LANE:
            return rows
        found = await self._holding(rows, controls)
        await self.hold(batch, [(row, found[row.key.notification_id].id) for row in rows if _of(row) in found])
        return [row for row in rows if _of(row) not in found]

    async def let_through_to(
        self, batch: Batch, provider: str, rows: Sequence[DeliveryRow], controls: Controls
    ) -> Sequence[DeliveryRow]:
        """The same of rows that were on their way to a provider. Where that one is paused now, they are read again."""
        if controls.pauses and controls.provider(provider, self._lane.name) is not None:
            await self._keep_hints(batch, rows)
            return ()
        return await self.let_through(batch, rows, controls)

    async def hold(self, batch: Batch, held: Sequence[tuple[DeliveryRow, UUID]]) -> None:
        """Let deliveries wait for the end of a pause, each once. Where it has ended meanwhile, they are read again."""
        if not held:
            return
        by_key = {row.key: pause_id for row, pause_id in held}
        rows = in_key_order((row for row, _ in held), lambda row: row.key)
        ids = [row.key.notification_id for row in rows]
        async with self._pool.acquire() as connection, connection.transaction():
            records = await connection.fetch(
                _SQL["hold"],
                ids,
                [row.key.channel for row in rows],
                [row.key.target_key for row in rows],
                [by_key[row.key] for row in rows],
                ids[0],
                ids[-1],
            )
            new = [rows[record["position"] - 1] for record in records if record["is_new"]]
            await self._consequences.log(connection, [self._line(row, by_key[row.key]) for row in new])
        PAUSE_HELD.labels(self._lane.name).inc(len(new))
        kept = {record["position"] - 1 for record in records}
        await self._keep_hints(batch, [row for position, row in enumerate(rows) if position not in kept])

    async def _holding(self, rows: Sequence[DeliveryRow], controls: Controls) -> dict[UUID, Pause]:
        """By notification, those that are held."""
        ids = sorted({row.key.notification_id for row in rows}, key=lambda each: each.int)
        records = await self._pool.fetch(_SQL["load_facts"], ids, ids[0], ids[-1], self._lane.channel)
        found = {
            record["id"]: controls.of(
                type_name=record["type"], api_key_id=record["api_key_id"], templates=record["templates"]
            )
            for record in records
        }
        return {notification_id: pause for notification_id, pause in found.items() if pause is not None}

    async def _keep_hints(self, batch: Batch, rows: Iterable[DeliveryRow]) -> None:
        """Behind what the lane's topic holds already, to be read from there as if for the first time."""
        await self._publisher.publish(
            batch.hints(Owed(row.hint(attempt=row.attempt, not_before=None), None) for row in rows)
        )

    def _line(self, row: DeliveryRow, pause_id: UUID) -> Line:
        pause = next((each for each in self._watch.current.pauses if each.id == pause_id), None)
        detail = None if pause is None else f"{pause.kind} {pause.name}, by {pause.paused_by}: {pause.note}"
        return Line(
            row.key,
            "verdict",
            row.attempt,
            "defer",
            Reason.PAUSED,
            None,
            None if detail is None else detail[:_DETAIL_CHARS],
        )


def _of(row: DeliveryRow) -> UUID:
    return row.key.notification_id
