"""When to try again, or the end (semantics.md section 4, architecture.md section 3, seeds 000 and 001).

By a lane's tiers where Kafka's retry topics hold what waits; by a `Backoff` where the row itself does (Model A).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.core.lifecycle import Reason
from shared.wire.channel import Lane


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again through the tier's topic; not before `at`."""

    tier_sec: int
    at: datetime


@dataclass(frozen=True, slots=True)
class GiveUp:
    """EXHAUSTED (dead letter, content kept) or EXPIRED (skipped)."""

    reason: Reason


MAX_JITTER = 0.25
"""Up to a quarter on top of the delay, as in seed 001."""


def next_attempt(
    lane: Lane, *, attempts_made: int, expires_at: datetime, now: datetime, jitter: float
) -> RetryAt | GiveUp:
    """What follows a transient failure of attempt number `attempts_made` (1 for the first).

    jitter in [0, 1): that share of a quarter of the delay is added. A retry that would start at or after `expires_at`
    is not made: the message is EXPIRED, whatever attempts are left.
    """
    if attempts_made >= lane.max_attempts:
        return GiveUp(Reason.EXHAUSTED)
    index = attempts_made - 1
    if index >= len(lane.tiers):
        if not lane.last_tier_repeats:
            return GiveUp(Reason.EXHAUSTED)
        index = len(lane.tiers) - 1
    tier = lane.tiers[index]
    at = now + timedelta(seconds=tier * (1 + MAX_JITTER * jitter))
    if at >= expires_at:
        return GiveUp(Reason.EXPIRED)
    return RetryAt(tier_sec=tier, at=at)


def snooze(lane: Lane, *, wait_sec: float, expires_at: datetime, now: datetime) -> RetryAt | GiveUp:
    """Where a delivery waits that was throttled, paused or whose provider is down: no attempt is counted.

    The shortest tier that covers the wait (the longest if none does, it will look again).
    """
    at = now + timedelta(seconds=wait_sec)
    if at >= expires_at:
        return GiveUp(Reason.EXPIRED)
    tier = next((tier for tier in lane.tiers if tier >= wait_sec), lane.tiers[-1])
    return RetryAt(tier_sec=tier, at=at)


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a message rests after each failed attempt, in seconds, rising; the last delay repeats."""

    delays_sec: tuple[float, ...]
    max_attempts: int

    def __post_init__(self) -> None:
        if not self.delays_sec or list(self.delays_sec) != sorted(self.delays_sec) or self.delays_sec[0] <= 0:
            raise ValueError("delays are positive and rising")
        if self.max_attempts < 1:
            raise ValueError("at least one attempt is made")

    def delay_sec(self, attempts_made: int) -> float:
        """The rest after attempt number `attempts_made` (1 for the first), without jitter."""
        return self.delays_sec[min(attempts_made, len(self.delays_sec)) - 1]


def doubling(*, first_sec: float, cap_sec: float, max_attempts: int) -> Backoff:
    """`first_sec * 2^(n-1)` after attempt n, at most `cap_sec`."""
    rests = max(1, max_attempts - 1)
    return Backoff(tuple(min(first_sec * 2.0**n, cap_sec) for n in range(rests)), max_attempts)


DOUBLING: Final = doubling(first_sec=10, cap_sec=3600, max_attempts=8)
"""Seed 001."""
STEPS: Final = Backoff((30, 120, 600), max_attempts=5)
"""Seed 000, section 8."""


def retry_at(
    backoff: Backoff, *, attempts_made: int, expires_at: datetime, now: datetime, jitter: float
) -> datetime | GiveUp:
    """When to try again after a failed attempt number `attempts_made`; jitter and the end are as in `next_attempt`."""
    if attempts_made >= backoff.max_attempts:
        return GiveUp(Reason.EXHAUSTED)
    at = now + timedelta(seconds=backoff.delay_sec(attempts_made) * (1 + MAX_JITTER * jitter))
    return GiveUp(Reason.EXPIRED) if at >= expires_at else at
