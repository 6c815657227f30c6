"""Deliveries whose allowed hours are over (marketing at night): put off to the next ones, neither sent nor lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from shared.core.lifecycle import Reason
from shared.core.quiet_hours import QuietHours
from shared.core.zone import zone_named
from shared.delivery.consequence import Consequences, Line
from shared.delivery.row import DeliveryRow
from shared.delivery.store import in_key_order
from shared.postgres.notification_type import stored_quiet_hours
from shared.postgres.pool import Pool
from shared.postgres.query import load_queries
from shared.wire.channel import Category, Lane

_SQL: Final = load_queries("delivery")


@dataclass(frozen=True, slots=True)
class Hours:
    """The next hours in which something may be sent: from `due`, until `until` (None: at any hour)."""

    due: datetime
    until: datetime | None


def next_hours(
    hours: QuietHours | None, zone: ZoneInfo, now: datetime, *, expires_at: datetime, notification_id: UUID
) -> Hours:
    """Of a delivery whose hours are over at `now`. Pure.

    At once where they have come again meanwhile, or where its type has no quiet hours any more. What expires before
    they come is looked at when it does, so that its end is told of then.
    """
    if hours is None:
        return Hours(now, None)
    if not hours.contains(now, zone):
        return Hours(now, hours.start_after(now, zone))
    due = hours.release(now, zone, expires_at=expires_at, of=notification_id)
    return Hours(min(due, expires_at), hours.start_after(due, zone))


class AllowedHours:
    """Of one lane. default_zone: of users who have not said theirs (T4). Raises what asyncpg raises."""

    def __init__(self, pool: Pool, lane: Lane, *, default_zone: str) -> None:
        self._pool = pool
        self._channel = lane.channel
        self._consequences = Consequences(lane)
        self._default_zone = default_zone

    async def put_off(self, over: Sequence[DeliveryRow], now: datetime) -> None:
        """Give each its next hours and a row in `deferred` that wakes it then, in one transaction.

        One that is not PENDING any more, or was put off by another worker, stays as it is.
        """
        if not over:
            return
        rows = in_key_order(over, lambda row: row.key)
        ids = [row.key.notification_id for row in rows]
        async with self._pool.acquire() as connection, connection.transaction():
            known = await connection.fetch(_SQL["load_hours"], ids, ids[0], ids[-1])
            by_id = {
                record["id"]: (
                    stored_quiet_hours(record["quiet_hours"], Category(record["category"])),
                    zone_named(record["time_zone"], self._default_zone),
                )
                for record in known
            }
            found = [
                next_hours(
                    *by_id.get(row.key.notification_id, (None, zone_named(None, self._default_zone))),
                    now,
                    expires_at=row.expires_at,
                    notification_id=row.key.notification_id,
                )
                for row in rows
            ]
            changed = await connection.fetch(
                _SQL["put_off"],
                ids,
                ids[0],
                ids[-1],
                self._channel,
                now,
                [row.key.target_key for row in rows],
                [row.send_until for row in rows],
                [hours.due for hours in found],
                [hours.until for hours in found],
            )
            ours = {record["position"] - 1 for record in changed}
            await self._consequences.log(
                connection,
                [
                    Line(
                        row.key,
                        "verdict",
                        row.attempt,
                        "defer",
                        Reason.QUIET_HOURS,
                        None,
                        f"until {hours.due.isoformat()}",
                    )
                    for place, (row, hours) in enumerate(zip(rows, found, strict=True))
                    if place in ours
                ],
            )
