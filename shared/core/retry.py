"""When to try again: which tier, or the end (semantics.md section 4, architecture.md section 3, seed 001)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

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
