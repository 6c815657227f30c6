"""Where a claim starts reading an outbox. Pure.

Rows that were published leave dead entries at the head of the index until vacuum removes them, and under a long
transaction vacuum removes none (O6): reading from the oldest on would get slower with every row published. So most
claims start where the last one ended, and a full scan comes often enough for what became visible late (O1), but never
so often that scanning is all the relay does.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

OLDEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OVERLAP: Final = timedelta(seconds=2)
"""Transactions are short: nearly all rows become visible within this time of their `available_at`."""
_COST_FACTOR: Final = 20.0
"""A full scan of d seconds is not repeated for 20 d: at most 5 % of the time goes into them."""


@dataclass(slots=True)
class ScanPlan:
    """One reader's plan. `at` is a monotonic time in seconds."""

    full_every_sec: float
    _position: datetime = OLDEST
    _highest: datetime = OLDEST
    _full_due_at: float = 0.0

    def floor(self, at: float) -> datetime:
        """The `available_at` from which to claim now."""
        return OLDEST if at >= self._full_due_at else max(OLDEST, self._position - _OVERLAP)

    def claimed(self, *, floor: datetime, newest: datetime | None, full: bool, at: float, took_sec: float) -> None:
        """Report one claim: from where, its newest row's `available_at` (None: no row), whether the batch was full.

        After a full batch reading goes on behind it, wherever that is: many rows may have become visible late. After
        another, all from `floor` on is done, and the position is the highest ever seen.
        """
        if newest is not None:
            self._highest = max(self._highest, newest)
        self._position = newest if full and newest is not None else self._highest
        if floor == OLDEST:
            self._full_due_at = at + max(self.full_every_sec, _COST_FACTOR * took_sec)
