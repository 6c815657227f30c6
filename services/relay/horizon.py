"""When which ids are swept (semantics.md section 1). Pure.

Each id range is looked at when it is 10 minutes and 1 hour old, then every six hours until the longest TTL is over:
the last look finds the rest expired, and whoever gets the hint settles it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from shared.core.identifier import lowest_id_at


def horizons(first: Sequence[int], *, repeat_sec: int, longest_ttl_sec: int) -> tuple[int, ...]:
    """Ages in seconds, rising: `first`, then multiples of `repeat_sec` up to the first at or past the longest TTL."""
    last = -(-longest_ttl_sec // repeat_sec)
    later = (repeat_sec * count for count in range(1, last + 1))
    return (*first, *(age for age in later if age > first[-1]))


def start_of(ages: Sequence[int], index: int, *, repeat_sec: int, now: datetime) -> UUID:
    """Where a horizon that was never swept begins: where the next older one ends, so that together they cover all."""
    older = ages[index + 1] if index + 1 < len(ages) else ages[index] + repeat_sec
    return lowest_id_at(now - timedelta(seconds=older))


def end_of(age_sec: int, *, now: datetime) -> UUID:
    """Ids below it are old enough for the horizon."""
    return lowest_id_at(now - timedelta(seconds=age_sec))
