"""Users' days as caps count them, and what PostgreSQL knows of them."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from shared.core.identifier import lowest_id_at
from shared.core.local_day import local_day
from shared.core.zone import zone_named
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries
from shared.redis_store.cap import Day
from shared.wire.channel import Category

_SQL: Final = load_queries("facts")
_LONGEST_WAIT: Final = timedelta(days=90)
"""How long before its decision a notification may have been accepted: as long as partitions are kept."""


def day_of(user_id: int, category: Category, channel: str, zone: str | None, default_zone: str, now: datetime) -> Day:
    """The day that something sent now is counted in."""
    day = local_day(now, zone_named(zone, default_zone))
    return Day(user_id, category, channel, day.date, day.begins, day.ends)


async def counted(connection: Connection, days: Collection[Day]) -> dict[Day, frozenset[bytes]]:
    """The ids of what was decided to go in each of these days and is committed; test keys count in no cap."""
    ordered = list(days)
    if not ordered:
        return {}
    rows = await connection.fetch(
        _SQL["counted"],
        [day.user_id for day in ordered],
        [day.category for day in ordered],
        [day.channel for day in ordered],
        [day.begins for day in ordered],
        [day.ends for day in ordered],
        lowest_id_at(min(day.begins for day in ordered) - _LONGEST_WAIT),
        lowest_id_at(max(day.ends for day in ordered)),
    )
    found = {ordered[row["position"] - 1]: frozenset(id_.bytes for id_ in row["ids"]) for row in rows}
    return {day: found.get(day, frozenset()) for day in ordered}
