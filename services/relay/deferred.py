"""What waited and is due: notifications to be decided, deliveries to be sent. Asked for until that has happened."""

from collections.abc import Collection, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from services.relay.hints import bounds, delivery_record, request_record
from shared.core.lifecycle import DeliveryStatus, NotificationState
from shared.kafka.record import Publisher, Record
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import SWEPT
from shared.wire.channel import Channels, MessageClass

_BATCH: Final = 500
_OPEN: Final[Sequence[str]] = (NotificationState.ACCEPTED, NotificationState.DEFERRED)

Row: TypeAlias = Any


class DeferredReleaser:
    """Publishes a hint per due row and pushes the row ahead; the row goes once what it asks for has happened.

    So the row is what remembers: a hint lost by Kafka, or by a kill -9 here, is repeated after `visibility_sec`. No
    hint goes into a lane that is paused, where they would only heap up: its deliveries wait under that pause.
    """

    def __init__(
        self, pool: Pool, publisher: Publisher, channels: Channels, *, watch: ControlWatch, visibility_sec: float
    ) -> None:
        self._pool = pool
        self._publisher = publisher
        self._channels = channels
        self._watch = watch
        self._visibility_sec = visibility_sec
        self._pause_sql: Final = load_queries("pause")
        self._sql: Final = load_queries("relay")

    async def round(self) -> bool:
        """One batch, the longest due first; True if it was full."""
        due = await self._pool.fetch(self._sql["claim_deferred"], _BATCH, self._visibility_sec)
        if not due:
            return False
        requests, undecided = await self._requests([row for row in due if row["kind"] == "notification"])
        hints, unsettled = await self._hints([row for row in due if row["kind"] == "delivery"])
        await self._publisher.publish([*requests, *hints])
        SWEPT.labels("deferred").inc(len(requests) + len(hints))
        done = {row["id"] for row in due} - undecided - unsettled
        if done:
            await self._pool.execute(self._sql["remove_deferred"], sorted(done))
        return len(due) == _BATCH

    async def _requests(self, due: Collection[Row]) -> tuple[list[Record], set[UUID]]:
        """Requests to decide, one a notification; and the rows that have to stay for them."""
        if not due:
            return [], set()
        ids = sorted({row["notification_id"] for row in due})
        rows = await self._pool.fetch(self._sql["load_notifications"], ids, *bounds(ids))
        waiting = {row["id"]: row for row in rows if row["state"] in _OPEN}
        stay = {row["id"] for row in due if row["notification_id"] in waiting}
        return [request_record(row) for row in waiting.values()], stay

    async def _hints(self, due: Collection[Row]) -> tuple[list[Record], set[UUID]]:
        """Hints to send, and the rows that have to stay; one that waits again has another row for that."""
        if not due:
            return [], set()
        ids = [row["notification_id"] for row in due]
        rows = await self._pool.fetch(
            self._sql["load_deferred_deliveries"],
            ids,
            [row["channel"] for row in due],
            [row["target_key"] for row in due],
            *bounds(ids),
            [row["id"] for row in due],
        )
        waiting = {_key(row): row for row in rows if row["status"] == DeliveryStatus.SENDING or row["due"]}
        held = await self._held_by_lanes([row for row in waiting.values() if row["status"] == DeliveryStatus.PENDING])
        stay = {row["id"] for row in due if _key(row) in waiting and _key(row) not in held}
        records = [
            delivery_record(row, self._channels)
            for key, row in waiting.items()
            if row["status"] == DeliveryStatus.PENDING and key not in held
        ]
        return [record for record in records if record is not None], stay

    async def _held_by_lanes(self, rows: Sequence[Row]) -> set[tuple[UUID, str, bytes]]:
        """Those whose lanes are paused; they wait for the end of that from now on."""
        controls = self._watch.current
        if not controls.pauses:
            return set()
        paused = [(row, pause) for row in rows if (pause := controls.lane(self._lane(row))) is not None]
        if not paused:
            return set()
        paused.sort(key=lambda entry: _key(entry[0]))
        ids = [row["notification_id"] for row, _ in paused]
        records = await self._pool.fetch(
            self._pause_sql["hold"],
            ids,
            [row["channel"] for row, _ in paused],
            [row["target_key"] for row, _ in paused],
            [pause.id for _, pause in paused],
            *bounds(ids),
        )
        return {_key(paused[record["position"] - 1][0]) for record in records}

    def _lane(self, row: Row) -> str:
        """'' where this installation has no such channel."""
        spec = self._channels.find(row["channel"])
        return "" if spec is None else spec.lane(MessageClass(row["message_class"])).name


def _key(row: Row) -> tuple[UUID, str, bytes]:
    return row["notification_id"], row["channel"], row["target_key"]
