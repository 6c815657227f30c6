"""Time zones by their IANA names, and the instants that a wall clock's times mean in them. Pure.

They come from the pinned `tzdata` package and from no other place: a container's own database may be years old (T3).
"""

from bisect import bisect_left
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

_SECOND: Final = timedelta(seconds=1)


@cache
def zone_names() -> frozenset[str]:
    """Every name there is; they are spelled exactly so."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@lru_cache(maxsize=1024)
def zone_named(name: str | None, default: str) -> ZoneInfo:
    """The zone of a name, the same object each time; the default's for None and for a name that is none (T4: the API
    takes no such name, but an older database may have lost it). ValueError if the default itself is none.
    """
    chosen = name if name in zone_names() else default
    if chosen not in zone_names():
        raise ValueError(f"{chosen!r} is no time zone: use an IANA name like Europe/Istanbul")
    return _zone(chosen)


@cache
def _zone(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def first_instant(day: date, clock: time, zone: ZoneInfo) -> datetime:
    """When it first is `clock` (naive) on `day` in a zone, or already later than that; UTC.

    A time that the clocks jump over is the first instant after the jump. One that comes twice is its first pass. So
    later wall times are never earlier instants.
    """
    wall = datetime.combine(day, clock)
    told = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)  # the first pass; in a gap, by the offset before it
    if told.astimezone(zone).replace(tzinfo=None) == wall:
        return told
    earliest = wall.replace(tzinfo=zone, fold=1).astimezone(UTC).replace(microsecond=0)
    after = told.astimezone(zone).utcoffset()
    seconds = range((told - earliest) // _SECOND + 1)
    jump = bisect_left(
        seconds, True, key=lambda second: (earliest + second * _SECOND).astimezone(zone).utcoffset() == after
    )
    return earliest + jump * _SECOND
