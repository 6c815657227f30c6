"""Partitions come and go beside traffic, and nothing at work is ever dropped."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from shared.postgres.errors import PartitionError, PartitionMissingError
from shared.postgres.partition import (
    Dropped,
    Partition,
    attached,
    drop_partitions,
    ensure_partitions,
    has_partition,
    partitions,
    require_partition,
)
from shared.postgres.pool import Pool

pytestmark = pytest.mark.postgres

Plant = Callable[..., Awaitable[None]]
IdOf = Callable[[datetime], UUID]
Until = Callable[[str], Awaitable[None]]

SOMEBODY_WAITS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"""

OLD = date(2020, 3, 1)
NOON_OF_OLD = datetime(2020, 3, 1, 12, tzinfo=UTC)
NAMES_OF_OLD = tuple(partition.name for partition in partitions(OLD, OLD))


async def test_missing_ones_are_created_and_only_those(pool: Pool) -> None:
    async with pool.acquire() as connection:
        assert await ensure_partitions(connection, OLD, ahead=0) == NAMES_OF_OLD
        assert await ensure_partitions(connection, OLD, ahead=0) == ()
        assert len(await ensure_partitions(connection, OLD, ahead=1, days_back=1)) == 8
        assert set(partitions(date(2020, 2, 29), date(2020, 3, 2))) <= await attached(connection)


async def test_ids_go_to_their_day_and_only_there(pool: Pool, plant: Plant, id_of: IdOf) -> None:
    async with pool.acquire() as connection:
        await ensure_partitions(connection, OLD, ahead=1)
    last, first = datetime(2020, 3, 1, 23, 59, 59, 999_000, UTC), datetime(2020, 3, 2, tzinfo=UTC)
    await plant("notifications", id=id_of(last))
    await plant("notifications", id=id_of(first))
    places = await pool.fetch("SELECT tableoid::regclass::text AS place FROM ulak.notifications ORDER BY id")
    assert [row["place"] for row in places] == ["ulak.notifications_20200301", "ulak.notifications_20200302"]


async def test_keys_indexes_and_storage_are_the_parents(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await ensure_partitions(connection, OLD, ahead=0)
    unattached = await pool.fetchval(
        """SELECT count(*) FROM pg_index JOIN pg_class AS tbl ON tbl.oid = indrelid
            WHERE tbl.relname = ANY($1::text[]) AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = indexrelid)""",
        list(NAMES_OF_OLD),
    )
    assert unattached == 0
    indexes = await pool.fetch(
        """SELECT pg_get_indexdef(indexrelid) AS def FROM pg_index JOIN pg_class AS tbl ON tbl.oid = indrelid
            WHERE tbl.relname = 'notifications_20200301'"""
    )
    columns = sorted(row["def"].partition("btree ")[2] for row in indexes)
    assert columns == ["(id)", "(user_id, id)"]
    options = await pool.fetchval("SELECT reloptions FROM pg_class WHERE relname = 'deliveries_20200301'")
    assert "fillfactor=50" in options


async def test_created_while_a_long_transaction_writes(pool: Pool, plant: Plant, id_of: IdOf) -> None:
    """ATTACH must neither wait for a transaction that has written to the table nor keep others from writing."""
    async with pool.acquire() as writer, pool.acquire() as reader, pool.acquire() as maker:
        long_write, long_read = writer.transaction(), reader.transaction()
        await long_write.start()
        await long_read.start()
        for table in ("notifications", "deliveries", "contents", "delivery_log"):
            await reader.fetchval(f"SELECT count(*) FROM ulak.{table}")
        now = datetime.now(UTC)
        notification_id = id_of(now)
        await plant("notifications", connection=writer, id=notification_id)
        await plant("deliveries", connection=writer, notification_id=notification_id)
        await plant("contents", connection=writer, notification_id=notification_id)
        await plant("delivery_log", connection=writer, notification_id=notification_id, id=id_of(now))

        created = await asyncio.wait_for(ensure_partitions(maker, OLD, ahead=0), 60)

        assert created == NAMES_OF_OLD
        await plant("deliveries", connection=writer, notification_id=notification_id, channel="PUSH")
        await long_write.commit()
        await long_read.rollback()
    assert await pool.fetchval("SELECT count(*) FROM ulak.deliveries") == 2


async def test_writers_never_wait_for_a_creation_that_is_itself_held_up(
    pool: Pool, plant: Plant, id_of: IdOf, until: Until
) -> None:
    """Other DDL holds the parent; the creation gives way and comes back, and rows flow all the time."""
    async with pool.acquire() as ddl, pool.acquire() as maker:
        blocking = ddl.transaction()
        await blocking.start()
        await ddl.execute("LOCK TABLE ulak.deliveries IN SHARE UPDATE EXCLUSIVE MODE")
        creation = asyncio.create_task(ensure_partitions(maker, OLD, ahead=0))
        async with asyncio.timeout(60):
            await until(SOMEBODY_WAITS)
            for _ in range(50):
                await plant("deliveries", notification_id=id_of(datetime.now(UTC)))
        assert not creation.done()
        await blocking.commit()
        assert await asyncio.wait_for(creation, 60) == NAMES_OF_OLD


async def test_two_at_once_create_each_once(pool: Pool) -> None:
    async def run() -> tuple[str, ...]:
        async with pool.acquire() as connection:
            return await ensure_partitions(connection, OLD, ahead=3)

    created = [name for names in await asyncio.gather(*(run() for _ in range(4))) for name in names]
    assert len(created) == len(set(created)) == 16


async def test_a_table_that_stands_alone_is_reported_not_taken(pool: Pool) -> None:
    await pool.execute("CREATE TABLE ulak.contents_20200301 (x int)")
    async with pool.acquire() as connection:
        with pytest.raises(PartitionError, match=r"contents_20200301.*attach it, or rename"):
            await ensure_partitions(connection, OLD, ahead=0)


async def test_has_and_require(pool: Pool, now: datetime) -> None:
    assert await has_partition(pool, now.date())
    await require_partition(pool, now.date())
    assert not await has_partition(pool, OLD)
    with pytest.raises(PartitionMissingError, match=r"2020-03-01.*ulak db partitions"):
        await require_partition(pool, OLD)


async def test_a_day_that_lacks_one_table_is_missing(pool: Pool, now: datetime) -> None:
    await pool.execute(f"DROP TABLE ulak.{Partition('delivery_log', now.date()).name}")
    assert not await has_partition(pool, now.date())


async def test_old_days_go_and_younger_ones_stay(pool: Pool, plant: Plant, id_of: IdOf, now: datetime) -> None:
    async with pool.acquire() as connection:
        await ensure_partitions(connection, OLD, ahead=2)
        notification_id = id_of(NOON_OF_OLD)
        await plant("notifications", id=notification_id)
        await plant("deliveries", notification_id=notification_id)
        await plant("contents", notification_id=notification_id)
        dropped = await drop_partitions(connection, OLD + timedelta(days=2))
        assert dropped.held == ()
        assert dropped.names == tuple(p.name for p in partitions(OLD, OLD + timedelta(days=1)))
        assert min(partition.day for partition in await attached(connection)) == OLD + timedelta(days=2)
    assert await has_partition(pool, now.date())
    assert await pool.fetchval("SELECT to_regclass('ulak.notifications_20200301')") is None


@pytest.mark.parametrize(
    ("table", "row", "kind"),
    [
        ("deferred", {"notification_id": ...}, "deferred"),
        ("leases", {"claim_id": UUID(int=1), "notification_ids": [UUID(int=5), ...]}, "lease"),
        ("unknown_open", {"notification_id": ...}, "unknown_open"),
        ("notifications", {"id": ..., "state": "ACCEPTED"}, "undecided notification"),
        ("notifications", {"id": ..., "state": "DEFERRED"}, "undecided notification"),
        ("deliveries", {"notification_id": ..., "status": "PENDING"}, "unsettled delivery"),
        ("deliveries", {"notification_id": ..., "status": "SENDING"}, "unsettled delivery"),
    ],
)
async def test_a_day_with_work_in_it_is_held(
    pool: Pool, plant: Plant, id_of: IdOf, table: str, row: dict[str, Any], kind: str
) -> None:
    notification_id = id_of(NOON_OF_OLD)

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(entry) for entry in value]
        return notification_id if value is ... else value

    async with pool.acquire() as connection:
        await ensure_partitions(connection, OLD, ahead=1)
        await plant(table, **{name: filled(value) for name, value in row.items()})
        dropped = await drop_partitions(connection, OLD + timedelta(days=2))
        assert dropped.held == ((OLD, (kind,)),)
        assert dropped.names == tuple(p.name for p in partitions(OLD + timedelta(days=1), OLD + timedelta(days=1)))
        assert set(partitions(OLD, OLD)) <= await attached(connection)


async def test_dropping_waits_for_a_reader_while_writers_go_on(
    pool: Pool, plant: Plant, id_of: IdOf, until: Until
) -> None:
    async with pool.acquire() as reader, pool.acquire() as dropper:
        await ensure_partitions(dropper, OLD, ahead=0)
        reading = reader.transaction()
        await reading.start()
        await reader.fetchval("SELECT count(*) FROM ulak.deliveries")
        dropping = asyncio.create_task(drop_partitions(dropper, OLD + timedelta(days=1)))
        async with asyncio.timeout(60):
            await until(SOMEBODY_WAITS)
            for _ in range(50):
                await plant("deliveries", notification_id=id_of(datetime.now(UTC)))
        assert not dropping.done()
        await reading.commit()
        dropped = await asyncio.wait_for(dropping, 60)
    assert dropped.names == NAMES_OF_OLD


async def test_a_detach_that_was_interrupted_is_finished(pool: Pool, until: Until) -> None:
    async with pool.acquire() as reader, pool.acquire() as dropper:
        await ensure_partitions(dropper, OLD, ahead=0)
        reading = reader.transaction()
        await reading.start()
        await reader.fetchval("SELECT count(*) FROM ulak.deliveries")
        pid = await dropper.fetchval("SELECT pg_backend_pid()")
        dropping = asyncio.create_task(drop_partitions(dropper, OLD + timedelta(days=1)))
        await until("SELECT EXISTS (SELECT FROM pg_inherits WHERE inhdetachpending)")
        await pool.fetchval("SELECT pg_cancel_backend($1)", pid)
        with pytest.raises(asyncpg.QueryCanceledError):
            await dropping
        await reading.commit()
        assert await drop_partitions(dropper, OLD + timedelta(days=1)) == Dropped(NAMES_OF_OLD, ())
    assert await pool.fetchval("SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 0


async def test_what_was_detached_and_not_dropped_is_dropped_by_the_next_run(pool: Pool) -> None:
    """A run that dies in between must not leave people's data in a table that nobody looks at."""
    async with pool.acquire() as dropper:
        await ensure_partitions(dropper, OLD, ahead=1)
        await dropper.execute("COMMENT ON TABLE ulak.contents_20200301 IS 'being dropped by ulak'")
        await dropper.execute("ALTER TABLE ulak.contents DETACH PARTITION ulak.contents_20200301")
        await dropper.execute("ALTER TABLE ulak.contents DETACH PARTITION ulak.contents_20200302")  # an operator's
        dropped = await drop_partitions(dropper, OLD)
    assert dropped.names == ("contents_20200301",)
    assert await pool.fetchval("SELECT to_regclass('ulak.contents_20200301')") is None
    assert await pool.fetchval("SELECT to_regclass('ulak.contents_20200302')") is not None
