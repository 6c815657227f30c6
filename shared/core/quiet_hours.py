"""A type's quiet hours: the nightly window in the reader's own zone in which nothing of it is sent (seed 003). Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from shared.core.zone import first_instant

_DAY: Final = timedelta(days=1)
_SHARES: Final = 2**64
_AROUND: Final = range(-2, 4)
"""Nights looked at, from the local date on: one that began yesterday, and the next that is not swallowed by a date
that a zone left out (Samoa had no 30 December 2011)."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `start` (inclusive) to `end` (exclusive), local wall time; over midnight where end <= start.

    The clocks' changes (T2): a bound that they jump over is the first instant after the jump, one that comes twice
    counts once, at its first pass. A night whose whole window is jumped over has none.
    spread: over how long after the end those who waited are released, so that 09:00 is not a stampede.
    """

    start: time
    end: time
    spread: timedelta = timedelta(minutes=15)

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise ValueError("quiet hours that start when they end are none, or the whole day: leave them out")

    def contains(self, now: datetime, zone: ZoneInfo) -> bool:
        """Whether `now` (aware) is within them."""
        nights, at = _ahead(self, now, zone)
        return nights[at][0] <= now

    def end_after(self, now: datetime, zone: ZoneInfo) -> datetime:
        """The next end, later than `now`, in UTC. They do not go on from there."""
        nights, at = _ahead(self, now, zone)
        return nights[at][1]

    def release(self, now: datetime, zone: ZoneInfo, *, expires_at: datetime, of: UUID) -> datetime:
        """When what comes within them goes: their end, plus a notification's own share of the spread, in UTC.

        The share is the same whenever it is asked for. The spread takes no more than half of what is left until the
        notification expires, or until the next quiet hours begin: there must be time to send.
        """
        end = self.end_after(now, zone)
        room = min(self.spread, (expires_at - end) / 2, (self.start_after(end, zone) - end) / 2)
        return end + max(room, timedelta()) * _share(of)

    def start_after(self, now: datetime, zone: ZoneInfo) -> datetime:
        """The next start, later than `now`, in UTC."""
        nights, at = _ahead(self, now, zone)
        start = nights[at][0]
        return start if start > now else nights[at + 1][0]


def _share(of: UUID) -> float:
    """From 0 up to 1, evenly over all notifications."""
    return int.from_bytes(blake2b(of.bytes, digest_size=8).digest()) / _SHARES


@lru_cache(maxsize=1024)  # a batch asks for one moment, in few zones
def _ahead(hours: QuietHours, now: datetime, zone: ZoneInfo) -> tuple[Sequence[tuple[datetime, datetime]], int]:
    """Nights in order, and the first of them that is not over."""
    nights = _nights(hours, zone, now.astimezone(zone).date())
    return nights, bisect_right(nights, now, key=lambda night: night[1])


@lru_cache(maxsize=4096)
def _nights(hours: QuietHours, zone: ZoneInfo, day: date) -> tuple[tuple[datetime, datetime], ...]:
    """Around a day, in order, as instants; neighbours that touch are one. Kept: a batch asks for few."""
    nights: list[tuple[datetime, datetime]] = []
    over_midnight = _DAY if hours.end <= hours.start else timedelta()
    for offset in _AROUND:
        evening = day + offset * _DAY
        start = first_instant(evening, hours.start, zone)
        end = first_instant(evening + over_midnight, hours.end, zone)
        if start == end:
            continue
        if nights and nights[-1][1] == start:
            nights[-1] = (nights[-1][0], end)
        else:
            nights.append((start, end))
    return tuple(nights)


MARKETING: Final = QuietHours(time(22), time(9))
"""Seed 003: 22:00 to 09:00."""
