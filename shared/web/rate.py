"""How fast one caller may call, counted by this process alone."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

_MAX_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket as of `at` (seconds on a clock that never goes back). Starts full and holds one second's worth.

    tokens may be negative: a batch is let in as one and paid off before the next request.
    """

    rate: int
    tokens: float
    at: float

    @classmethod
    def full(cls, rate: int, at: float) -> "Bucket":
        return cls(rate, float(max(rate, 1)), at)

    def refilled(self, now: float) -> "Bucket":
        """Never above one second's worth, and never less for a clock that stands still."""
        gained = max(0.0, now - self.at) * self.rate
        return Bucket(self.rate, min(float(max(self.rate, 1)), self.tokens + gained), max(self.at, now))

    def take(self, count: int) -> "Bucket | None":
        """The bucket after `count` were taken, or None if not even one is there."""
        return Bucket(self.rate, self.tokens - count, self.at) if self.tokens >= 1 else None

    @property
    def retry_after_sec(self) -> int:
        """Whole seconds, at least 1, until one token is there again."""
        return max(1, math.ceil((1 - self.tokens) / self.rate))


class RateLimiter:
    """Buckets by caller. default_rate applies to callers without a rate of their own; None: unlimited."""

    def __init__(self, *, default_rate: int | None, clock: Callable[[], float]) -> None:
        self._default_rate = default_rate
        self._clock = clock
        self._buckets: dict[Hashable, Bucket] = {}

    def take(self, caller: Hashable, rate: int | None, count: int = 1) -> int | None:
        """None if the request may go on, else the seconds after which to come again."""
        applied = rate or self._default_rate
        if applied is None:
            return None
        now = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None or bucket.rate != applied:
            bucket = Bucket.full(applied, now)
        bucket = bucket.refilled(now)
        taken = bucket.take(count)
        if len(self._buckets) >= _MAX_BUCKETS and caller not in self._buckets:
            self._buckets.clear()
        self._buckets[caller] = taken or bucket
        return None if taken is not None else bucket.retry_after_sec

    def charge(self, caller: Hashable, rate: int | None, count: int) -> None:
        """Take `count` more for a request that has been let in (a batch's further items); may leave a debt."""
        applied = rate or self._default_rate
        bucket = self._buckets.get(caller)
        if applied is not None and bucket is not None and count > 0:
            self._buckets[caller] = Bucket(bucket.rate, bucket.tokens - count, bucket.at)
