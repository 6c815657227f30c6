"""What waited for the end of a pause is let go, in the order of its acceptance and at a pace."""

from datetime import datetime, timedelta
from typing import Final

import asyncpg

from shared.core.control import PauseKind
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries
from shared.runtime.metrics import PAUSE_RELEASED, PAUSE_WAITING, PAUSES_IN_FORCE

_BATCH: Final = 500
_MOST_CREDIT_SEC: Final = 2.0
"""Of the time that nobody released anything (no relay, a database that was away), so much counts: it is no burst."""
_COUNTED: Final = 100_000


def may_go(released_to: datetime, now: datetime, per_second: float) -> tuple[int, datetime]:
    """How many may be let go at `now`, and from when their time counts (`used_to`)."""
    since = max(released_to, now - timedelta(seconds=_MOST_CREDIT_SEC))
    return max(0, int((now - since).total_seconds() * per_second)), since


def used_to(since: datetime, count: int, per_second: float) -> datetime:
    """Up to when `count` deliveries use the pace up."""
    return since + timedelta(seconds=count / per_second)


class PauseRelease:
    """A batch of each ended pause a round: its rows in `deferred` become due, and `deferred.py` asks for them.

    One transaction: killed in it, nothing is let go and no pace is used. Any number of relays share a pause's pace.
    """

    def __init__(self, pool: Pool, *, per_second: float) -> None:
        """per_second: deliveries of a pause, where its resume named no pace."""
        self._pool = pool
        self._per_second = per_second
        self._sql: Final = load_queries("pause")

    async def round(self) -> bool:
        """True where a pause's pace allows more at once."""
        async with self._pool.acquire() as connection, connection.transaction():
            releasing = await connection.fetch(self._sql["lock_releasing"], self._per_second)
            return any([await self._release(connection, pause) for pause in releasing])

    async def _release(self, connection: Connection, pause: asyncpg.Record) -> bool:
        pause_id, per_second = pause["id"], pause["per_second"]
        allowed, since = may_go(pause["released_to"], pause["at"], per_second)
        count = await connection.fetchval(self._sql["release"], pause_id, min(allowed, _BATCH)) if allowed else 0
        ended = await connection.fetchval(self._sql["save_release"], pause_id, used_to(since, count, per_second))
        PAUSE_RELEASED.inc(count)
        return allowed > _BATCH and not ended


class PauseGauges:
    """How many pauses are in force, and what waits under pauses."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._sql: Final = load_queries("pause")

    async def round(self) -> bool:
        """Measure once; never more at once."""
        found = {row["kind"]: row for row in await self._pool.fetch(self._sql["count_waiting"], _COUNTED)}
        for kind in PauseKind:
            PAUSES_IN_FORCE.labels(kind).set(found[kind]["in_force"] if kind in found else 0)
            PAUSE_WAITING.labels(kind).set(found[kind]["waiting"] if kind in found else 0)
        return False
