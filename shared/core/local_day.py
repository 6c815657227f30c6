"""The calendar day it is where a user lives, and when it began and ends (case T5). Pure."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from shared.core.zone import first_instant

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LocalDay:
    """`date` from `begins` up to `ends`, both UTC: 23 to 25 hours, and other lengths where history wanted it."""

    date: date
    begins: datetime
    ends: datetime


@lru_cache(maxsize=1024)  # a batch asks for one moment, in few zones
def local_day(now: datetime, zone: ZoneInfo) -> LocalDay:
    """The day of `now` (aware) in a zone.

    A midnight that the clock jumps over begins where the jump ends; one that comes twice begins at the first.
    """
    local = now.astimezone(zone).date()
    tomorrow = _day(local + _DAY, zone)
    return tomorrow if tomorrow.begins <= now else _day(local, zone)  # clocks went back over midnight


@lru_cache(maxsize=4096)
def _day(local: date, zone: ZoneInfo) -> LocalDay:
    return LocalDay(local, first_instant(local, time.min, zone), first_instant(local + _DAY, time.min, zone))
