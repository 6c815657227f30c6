"""What time makes superfluous is removed in small batches, and tomorrow's partitions are there before tomorrow."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from services.relay.hints import bounds
from services.relay.own_outbox import enqueue
from services.relay.reaper import key_columns
from services.relay.settings import RelaySettings
from shared.core.event import delivery_event
from shared.core.identifier import new_id
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.delivery.request import clear_requests
from shared.kafka.record import Record
from shared.postgres.dead_letter import prune_letters
from shared.postgres.inbox import prune_inbox
from shared.postgres.partition import ensure_partitions
from shared.postgres.pool import Connection, Pool
from shared.postgres.provider import prune_events
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import RECEIPTS, UNKNOWN_CLOSED, UPKEEP_REMOVED
from shared.wire.topic import DELIVERY_EVENTS

_BATCH: Final = 1000
_BLOCKS: Final = 256
"""Two MiB of the dedup table per step."""
_LOCK: Final = 0x756C616B_10  # "ulak", 16: one relay at a time keeps house

_log = get_logger(__name__)

Step = Callable[[Connection], Awaitable[bool]]


class PartitionsAhead:
    """Creates what is missing of the coming days' partitions; one query when nothing is."""

    def __init__(self, pool: Pool, *, days: int, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._days = days
        self._clock = clock

    async def round(self) -> bool:
        """Check once; never more at once."""
        async with self._pool.acquire() as connection:
            created = await ensure_partitions(connection, self._clock().date(), ahead=self._days)
        if created:
            _log.info("partitions_created", partitions=created)
        return False


class Upkeep:
    """Each task is a step of its own transaction; a relay that finds another at it leaves it alone."""

    def __init__(self, pool: Pool, settings: RelaySettings, *, clock: Callable[[], datetime]) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._block = 0
        self._sql: Final = load_queries("reaper")

    async def round(self) -> bool:
        """Every task once. True if one of them has more to do at once."""
        steps: Sequence[Step] = (
            self._close_unknown,
            self._prune_dedup,
            self._prune_applied_receipts,
            self._prune_parked_receipts,
            self._clear_codes,
            self._prune_windows,
            self._prune_devices,
            self._prune_imports,
            self._prune_inbox,
            self._prune_provider_events,
            self._prune_dead_letters,
        )
        more = False
        for step in steps:
            more = await self._alone(step) or more
        await self._prune_otp_due()
        return more

    async def _alone(self, step: Step) -> bool:
        async with self._pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
                return False
            return await step(connection)

    async def _close_unknown(self, connection: Connection) -> bool:
        old = await connection.fetch(self._sql["take_old_unknown"], self._settings.unknown_close_sec, _BATCH)
        if not old:
            return False
        keys = sorted(DeliveryKey(row["notification_id"], row["channel"], row["target_key"]) for row in old)
        now = self._clock()
        ids = [key.notification_id for key in keys]
        closed = await connection.fetch(self._sql["close_unknown"], *key_columns(keys), now, *bounds(ids))
        records: list[tuple[int, Record]] = []
        for row in closed:
            key, value, headers = delivery_event(
                DeliveryKey(row["notification_id"], row["channel"], row["target_key"]),
                status=DeliveryStatus.UNKNOWN,
                reason=Reason.CLOSED,
                attempt=row["attempt"],
                provider=row["provider"],
                at=now,
            )
            records.append((row["message_class"], Record(DELIVERY_EVENTS, key, value, headers)))
        await enqueue(connection, records)
        await clear_requests(connection, keys)
        if closed:
            await connection.execute(
                self._sql["log_deliveries"],
                "verdict",
                [row["notification_id"] for row in closed],
                [new_id() for _ in closed],
                [row["channel"] for row in closed],
                [row["target_key"] for row in closed],
                [row["attempt"] for row in closed],
                ["closed" for _ in closed],
                [Reason.CLOSED for _ in closed],
                [row["provider"] for row in closed],
                ["no receipt came in time" for _ in closed],
            )
        UNKNOWN_CLOSED.inc(len(closed))
        return len(old) == _BATCH

    async def _prune_dedup(self, connection: Connection) -> bool:
        """One stretch of the heap; round after round it walks the whole table and begins again."""
        blocks = await connection.fetchval(self._sql["dedup_blocks"])
        first = self._block if self._block < blocks else 0
        removed = await connection.execute(self._sql["prune_dedup"], first, first + _BLOCKS)
        self._block = first + _BLOCKS
        return _count("notification_dedup", removed) > 0 and self._block < blocks

    async def _prune_applied_receipts(self, connection: Connection) -> bool:
        keep = self._settings.applied_receipts_keep_sec
        removed = await connection.execute(self._sql["prune_applied_receipts"], keep, _BATCH)
        return _count("applied_receipts", removed) == _BATCH

    async def _prune_parked_receipts(self, connection: Connection) -> bool:
        keep = self._settings.parked_receipts_keep_sec
        orphans = await connection.fetch(self._sql["prune_parked_receipts"], keep, _BATCH)
        for row in orphans:
            RECEIPTS.labels(row["provider"], "orphan").inc()
        return len(orphans) == _BATCH

    async def _clear_codes(self, connection: Connection) -> bool:
        over = await connection.fetch(self._sql["take_over_codes"], _BATCH)
        if over:
            ids = sorted({row["notification_id"] for row in over})
            cleared = await connection.execute(self._sql["clear_codes"], ids, *bounds(ids))
            _count("contents", cleared)
        return len(over) == _BATCH

    async def _prune_windows(self, connection: Connection) -> bool:
        removed = await connection.execute(self._sql["prune_windows"], _BATCH)
        return _count("content_window", removed) == _BATCH

    async def _prune_devices(self, connection: Connection) -> bool:
        """What no app has told of for so long is another person's phone by now, or nobody's."""
        removed = await connection.execute(self._sql["prune_devices"], self._settings.devices_keep_sec, _BATCH)
        return _count("devices", removed) == _BATCH

    async def _prune_inbox(self, connection: Connection) -> bool:
        before = self._clock() - timedelta(seconds=self._settings.inbox_keep_sec)
        removed = await prune_inbox(connection, before, limit=_BATCH)
        UPKEEP_REMOVED.labels("inbox").inc(removed)
        return removed == _BATCH

    async def _prune_provider_events(self, connection: Connection) -> bool:
        before = self._clock() - timedelta(seconds=self._settings.provider_events_keep_sec)
        removed = await prune_events(connection, before, _BATCH)
        UPKEEP_REMOVED.labels("provider_events").inc(removed)
        return removed == _BATCH

    async def _prune_dead_letters(self, connection: Connection) -> bool:
        """Open ones stay: somebody has to look at them, however old they are."""
        before = self._clock() - timedelta(seconds=self._settings.dead_letters_keep_sec)
        removed = await prune_letters(connection, before, _BATCH)
        UPKEEP_REMOVED.labels("dead_letters").inc(removed)
        return removed == _BATCH

    async def _prune_imports(self, connection: Connection) -> bool:
        """Bad lines first: there may be millions of one run."""
        keep = self._settings.imports_keep_sec
        removed = await connection.execute(self._sql["prune_import_errors"], keep, _BATCH)
        if _count("import_errors", removed) == _BATCH:
            return True
        _count("import_runs", await connection.execute(self._sql["prune_import_runs"], keep))
        return False

    async def _prune_otp_due(self) -> None:
        """Page by page over the due codes; what is still PENDING stays."""
        last = UUID(int=0)
        while True:
            due = [row["notification_id"] for row in await self._pool.fetch(self._sql["due_otp"], last, _BATCH)]
            if not due:
                return
            rows = await self._pool.fetch(self._sql["pending_among"], due, *bounds(due))
            settled = set(due) - {row["notification_id"] for row in rows}
            if settled:
                _count("otp_due", await self._pool.execute(self._sql["remove_otp_due"], sorted(settled)))
            last = due[-1]


def _count(table: str, status: str) -> int:
    """Rows of a command status like `DELETE 12`, counted for the table."""
    rows = int(status.rsplit(maxsplit=1)[-1])
    UPKEEP_REMOVED.labels(table).inc(rows)
    return rows
