"""Which partitions are paused, and why: pure decisions over the backlog's state. Polling itself never stops (K2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.kafka.record import Partition

_BUSY_POLL_SEC: Final = 0.1
_QUIET_POLL_SEC: Final = 0.5
"""A message ends a poll at once, so this only bounds how soon a stop is seen; a process of 40 consumers that look ten
times a second spends 3 % of a core on nothing."""
_QUIET_AFTER_SEC: Final = 10.0


class PauseReason(StrEnum):
    STOPPING = "stopping"
    DEAD_LETTERS_FAILING = "dead_letters_failing"
    PAUSED = "paused"
    HELD = "held"
    NOT_DUE = "not_due"
    BUFFER_FULL = "buffer_full"


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Messages buffered between poll and handlers: full at `high`, has room again at `low` (hysteresis: a pause throws
    librdkafka's read-ahead away, so it must be rare).
    """

    high: int
    low: int

    @classmethod
    def for_batches(cls, batch_size: int, max_in_flight: int) -> "BufferLimits":
        """Enough that every handler finds its next batch ready, twice."""
        batches = max_in_flight + 1
        return cls(high=2 * batches * batch_size, low=batches * batch_size)

    def full(self, buffered: int, *, was_full: bool) -> bool:
        """Whether intake must rest, given whether it was resting."""
        return buffered > self.low if was_full else buffered >= self.high


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What decides about one partition: its first buffered message.

    head_due is when it may be worked on (None: now); held: it cannot be read by this release, and head_due is when
    to look again.
    """

    head_due: datetime | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class IntakePlan:
    """What to pause and to resume now, and when to look again at the latest (None: no sooner than usual)."""

    pause: tuple[Partition, ...]
    resume: tuple[Partition, ...]
    reasons: Mapping[Partition, PauseReason]
    """Why each partition that is paused from now on is."""
    look_again_at: datetime | None


def pause_reason(
    state: PartitionState,
    now: datetime,
    *,
    full: bool,
    dead_letters_failing: bool,
    stopping: bool,
    resting: bool = False,
) -> PauseReason | None:
    """Why this partition is paused, the strongest reason first; None if it is read."""
    if stopping:
        return PauseReason.STOPPING
    if dead_letters_failing:
        return PauseReason.DEAD_LETTERS_FAILING
    if resting:
        return PauseReason.PAUSED
    if state.held:
        return PauseReason.HELD
    if state.head_due is not None and state.head_due > now:
        return PauseReason.NOT_DUE
    return PauseReason.BUFFER_FULL if full else None


def plan_intake(
    states: Mapping[Partition, PartitionState],
    paused: frozenset[Partition],
    now: datetime,
    *,
    full: bool = False,
    dead_letters_failing: bool = False,
    stopping: bool = False,
    resting: bool = False,
) -> IntakePlan:
    """What changes between the partitions that are paused and those that should be.

    states has every assigned partition; `paused` may name others, which are ignored. resting: an operator has paused
    whatever these topics are for.
    """
    judged = {
        partition: pause_reason(
            state, now, full=full, dead_letters_failing=dead_letters_failing, stopping=stopping, resting=resting
        )
        for partition, state in states.items()
    }
    reasons = {partition: reason for partition, reason in judged.items() if reason is not None}
    times = [state.head_due for state in states.values() if state.head_due is not None]
    return IntakePlan(
        pause=tuple(sorted(reasons.keys() - paused)),
        resume=tuple(sorted((paused & states.keys()) - reasons.keys())),
        reasons=reasons,
        look_again_at=min((moment for moment in times if moment > now), default=None),
    )


def idle_poll_sec(*, quiet_sec: float, has_work: bool) -> float:
    """How long one poll may wait. quiet_sec: since the last message; has_work: something is buffered or in flight."""
    return _QUIET_POLL_SEC if not has_work and quiet_sec >= _QUIET_AFTER_SEC else _BUSY_POLL_SEC


@dataclass(frozen=True, slots=True)
class RetryDelay:
    """Back-off between tries of a batch whose handler raised, or of a failed dead-letter write."""

    base_sec: float = 0.2
    cap_sec: float = 30.0

    def after(self, attempt: int, jitter: float) -> float:
        """Seconds to wait after the attempt-th failure (from 1); jitter in [0, 1] picks between half and all of it."""
        full = min(self.cap_sec, self.base_sec * 2.0 ** min(attempt - 1, 32))
        return full * (0.5 + 0.5 * jitter)
