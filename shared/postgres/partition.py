"""Daily partitions of the hot tables: names and bounds (pure), creation and dropping that never block traffic.

A partition holds the ids of one UTC day. Bounds are UUIDv7 prefixes, so keys need no extra date column (data.md).
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from uuid import UUID

import asyncpg

from shared.core.identifier import created_at, lowest_id_at
from shared.postgres.errors import PartitionError, PartitionMissingError, translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries

DAYS_AHEAD: Final = 7
DAYS_BACK: Final = 1
"""Yesterday's too: clocks differ, and the first midnight after a fresh installation may be seconds away."""
RETENTION_DAYS: Final = 90

PARTITIONED: Final = ("deliveries", "delivery_log", "contents", "notifications")
"""In the order in which a day's partitions go: nothing is left that points to a notification that is gone."""

_STORAGE: Final = {
    # Every row is rewritten within seconds of its page being filled, and the new version fits beside the old one only
    # in half-empty pages. Measured on PostgreSQL 15 with 150,000 rows in batches of 1,000, at 85, 70 and 50 %:
    # HOT updates of deliveries (three each) 33, 61 and 94 %, heap 196, 164 and 123 MB, because pruning frees what
    # would else be dead; of notifications (one each) 16, 47 and 100 %, heap the same, index half the size.
    "deliveries": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05",
    "notifications": "fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05",
    "contents": "fillfactor = 100",
    "delivery_log": "fillfactor = 100",
}
_LOCK_KEY: Final = 0x756C616B_02  # "ulak", 2: partitions are created by one session at a time
_LOCK_TIMEOUT_MS: Final = 500
_TRIES: Final = 40
_DETACH_SEC: Final = 600.0
_DROP_MARK: Final = "being dropped by ulak"


@dataclass(frozen=True, slots=True)
class Partition:
    """One table's partition of one UTC day: `lower` <= id < `upper`."""

    table: str
    day: date

    @property
    def name(self) -> str:
        return f"{self.table}_{self.day:%Y%m%d}"

    @property
    def lower(self) -> UUID:
        return lowest_id_at(_midnight(self.day))

    @property
    def upper(self) -> UUID:
        return lowest_id_at(_midnight(self.day + timedelta(days=1)))


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a drop run did: partitions that are gone, and days that stayed with the kinds of rows that hold them."""

    names: tuple[str, ...]
    held: tuple[tuple[date, tuple[str, ...]], ...]


def partitions(first: date, last: date) -> tuple[Partition, ...]:
    """All tables' partitions of the days from `first` to `last`, both included, day by day."""
    days = (first + timedelta(days=n) for n in range((last - first).days + 1))
    return tuple(Partition(table, day) for day in days for table in PARTITIONED)


def day_of(notification_id: UUID) -> date:
    """The UTC day whose partition holds this id."""
    return created_at(notification_id).date()


def parse_name(name: str) -> Partition | None:
    """Inverse of `Partition.name`; None for a table that is not one of ours (an operator's own)."""
    table, _, day = name.rpartition("_")
    if table not in PARTITIONED or len(day) != 8:
        return None
    try:
        return Partition(table, datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC).date())
    except ValueError:
        return None


async def ensure_partitions(
    connection: Connection, today: date, *, ahead: int = DAYS_AHEAD, days_back: int = 0
) -> tuple[str, ...]:
    """Create what is missing from `days_back` days before `today` to `ahead` days after; names of what was created.

    One query when nothing is missing. Never blocks traffic: see `_create`. Raises PartitionError if a lock cannot be
    had within some 30 seconds of tries, or a table of that name stands alone.
    """
    wanted = partitions(today - timedelta(days=days_back), today + timedelta(days=ahead))
    with translated():
        there = await attached(connection)
        missing = [partition for partition in wanted if partition not in there]
        return tuple([partition.name for partition in missing if await _create(connection, partition)])


async def attached(connection: Connection) -> frozenset[Partition]:
    """The daily partitions that take rows now."""
    rows = await connection.fetch(load_queries("partition")["attached"], list(PARTITIONED))
    found = (parse_name(row["name"]) for row in rows if not row["detaching"])
    return frozenset(partition for partition in found if partition is not None)


async def has_partition(connection: Connection | Pool, today: date) -> bool:
    """Whether every hot table takes ids of that UTC day."""
    rows = await connection.fetch(load_queries("partition")["attached"], list(PARTITIONED))
    names = {row["name"] for row in rows if not row["detaching"]}
    return names.issuperset(partition.name for partition in partitions(today, today))


async def require_partition(connection: Connection | Pool, today: date) -> None:
    """For a service's start: PartitionMissingError, naming the remedy, if rows of today could not be written."""
    with translated():
        if not await has_partition(connection, today):
            raise PartitionMissingError(f"the partitions of {today} (UTC) are missing: run `ulak db partitions`")


async def drop_partitions(connection: Connection, older_than: date) -> Dropped:
    """Drop the days before `older_than` into which nothing that is still at work points; oldest first.

    A day is held by a deferred row, a lease, an UNKNOWN that is still open, an undecided notification or an unsettled
    delivery. What an interrupted run left half-way is finished. Must not run inside a transaction.
    """
    queries = load_queries("partition")
    names: list[str] = []
    held: list[tuple[date, tuple[str, ...]]] = []
    with translated():
        for row in await connection.fetch(queries["left_over"], _DROP_MARK):
            await connection.execute(f"DROP TABLE ulak.{row['name']}", timeout=_DETACH_SEC)
            names.append(row["name"])
        rows = await connection.fetch(queries["attached"], list(PARTITIONED))
        found = {
            partition: bool(row["detaching"]) for row in rows if (partition := parse_name(row["name"])) is not None
        }
        for day in sorted({partition.day for partition in found if partition.day < older_than}):
            bounds = Partition("notifications", day)
            blockers = await connection.fetch(queries["blockers"], bounds.lower, bounds.upper, timeout=_DETACH_SEC)
            if blockers:
                held.append((day, tuple(row["kind"] for row in blockers)))
                continue
            for partition in partitions(day, day):
                if partition in found:
                    await _drop(connection, partition, detaching=found[partition])
                    names.append(partition.name)
    return Dropped(tuple(names), tuple(held))


async def _create(connection: Connection, partition: Partition) -> bool:
    """Create and attach in one transaction, so that a crash leaves nothing half-way; False if it is there by now.

    ATTACH takes SHARE UPDATE EXCLUSIVE on the parent, which lets reads and writes go on, and looks for rows that the
    bounds forbid in the new table alone, which is empty (so no CHECK constraint is needed, and there is no default
    partition to look through). What it may wait for is other DDL: then it gives way after half a second and comes back.
    """
    for attempt in range(1, _TRIES + 1):
        try:
            return await _try_create(connection, partition)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if attempt == _TRIES:
                raise PartitionError(
                    f"{partition.name} could not be attached: other DDL on ulak.{partition.table} holds its lock; "
                    "look for it in pg_stat_activity, then run `ulak db partitions` again"
                ) from error
            await asyncio.sleep(random.uniform(0.1, 0.4))  # noqa: S311  # spreads retries, guards nothing
    raise AssertionError("unreachable")


async def _try_create(connection: Connection, partition: Partition) -> bool:
    name, table = f"ulak.{partition.name}", f"ulak.{partition.table}"
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}")
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK_KEY})")
        if partition in await attached(connection):
            return False
        if await connection.fetchval(load_queries("partition")["standing_alone"], partition.name):
            raise PartitionError(f"table {name} exists but is not attached to {table}: attach it, or rename it away")
        await connection.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING ALL) WITH ({_STORAGE[partition.table]})")
        bounds = f"FROM ('{partition.lower}') TO ('{partition.upper}')"
        await connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}")
    return True


async def _drop(connection: Connection, partition: Partition, *, detaching: bool) -> None:
    """Detach without a lock that traffic would meet (it waits for running transactions instead), then drop.

    The mark comes first: a table that was detached by a run that then died still holds people's data, and is nobody's.
    """
    await connection.execute(f"COMMENT ON TABLE ulak.{partition.name} IS '{_DROP_MARK}'", timeout=_DETACH_SEC)
    how = "FINALIZE" if detaching else "CONCURRENTLY"
    await connection.execute(
        f"ALTER TABLE ulak.{partition.table} DETACH PARTITION ulak.{partition.name} {how}", timeout=_DETACH_SEC
    )
    await connection.execute(f"DROP TABLE ulak.{partition.name}", timeout=_DETACH_SEC)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def days(found: Iterable[Partition]) -> tuple[date, ...]:
    """The days on which all hot tables have their partition, in order."""
    tables: dict[date, set[str]] = {}
    for partition in found:
        tables.setdefault(partition.day, set()).add(partition.table)
    return tuple(sorted(day for day, present in tables.items() if present.issuperset(PARTITIONED)))
