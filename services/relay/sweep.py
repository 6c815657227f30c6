"""The sweep: what is committed and owed a hint, but never got one, gets it now. Kafka may lose everything."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from services.relay.hints import delivery_record, request_record
from services.relay.horizon import end_of, horizons, start_of
from shared.kafka.record import Publisher, Record
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.logs import get_logger
from shared.runtime.metrics import HINTS_DROPPED, SWEPT, UPKEEP_REMOVED
from shared.wire.channel import Channels

_log = get_logger(__name__)

_NEXT: Final = 1


class Sweep:
    """Walks the primary key behind each horizon, a page a transaction: bounded memory, restarts where it was.

    The page's hints are acknowledged before its progress is committed; a kill in between repeats one page.
    """

    def __init__(
        self,
        pool: Pool,
        publisher: Publisher,
        channels: Channels,
        *,
        first_horizons: tuple[int, ...],
        repeat_sec: int,
        page: int,
        pause_sec: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._pool = pool
        self._publisher = publisher
        self._channels = channels
        self._first = first_horizons
        self._repeat_sec = repeat_sec
        self._page = page
        self._pause_sec = pause_sec
        self._clock = clock
        self._sql: Final = load_queries("sweep")

    async def round(self) -> bool:
        """One page of every horizon that has ids to sweep. True if one of them has more."""
        longest_ttl = await self._pool.fetchval(self._sql["longest_ttl"])
        ages = horizons(self._first, repeat_sec=self._repeat_sec, longest_ttl_sec=longest_ttl)
        now = self._clock()
        await self._pool.execute(self._sql["forget_horizons"], list(ages))
        more = False
        for index, age in enumerate(ages):
            start = start_of(ages, index, repeat_sec=self._repeat_sec, now=now)
            await self._pool.execute(self._sql["begin_horizon"], age, start)
            more = await self._step(age, now) or more
        if more:
            await asyncio.sleep(self._pause_sec)
        return more

    async def _step(self, age_sec: int, now: datetime) -> bool:
        end = end_of(age_sec, now=now)
        async with self._pool.acquire() as connection, connection.transaction():
            swept_to = await connection.fetchval(self._sql["lock_horizon"], age_sec)
            if swept_to is None or swept_to >= end:  # another relay is at it, or nothing is old enough
                return False
            page = await connection.fetchrow(self._sql["page"], swept_to, end, self._page)
            if page is None or page["seen"] == 0:
                await connection.execute(self._sql["save_horizon"], age_sec, end)
                return False
            await self._sweep_page(connection, swept_to, page["last"], now, age_sec)
            last_page = page["seen"] < self._page
            reached = end if last_page else UUID(int=page["last"].int + _NEXT)
            await connection.execute(self._sql["save_horizon"], age_sec, reached)
        return not last_page

    async def _sweep_page(
        self, connection: Connection, lowest: UUID, highest: UUID, now: datetime, age_sec: int
    ) -> None:
        notifications = await connection.fetch(self._sql["owed_notifications"], lowest, highest, now)
        deliveries = await connection.fetch(self._sql["owed_deliveries"], lowest, highest, now)
        records: list[Record] = [request_record(row) for row in notifications]
        for row in deliveries:
            record = delivery_record(row, self._channels)
            if record is None:
                HINTS_DROPPED.labels("relay", "unknown_channel").inc()
            else:
                records.append(record)
        await self._publisher.publish(records)
        cleared = await connection.execute(self._sql["clear_expired_codes"], lowest, highest, now)
        UPKEEP_REMOVED.labels("contents").inc(int(cleared.split()[-1]))
        SWEPT.labels("notification").inc(len(notifications))
        SWEPT.labels("delivery").inc(len(deliveries))
        if records:
            _log.warning(
                "swept",
                horizon_sec=age_sec,
                notifications=len(notifications),
                deliveries=len(deliveries),
            )
