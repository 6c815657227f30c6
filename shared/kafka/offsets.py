"""Which offset of a partition may be committed: pure bookkeeping, one object per assignment.

The rule (K1): an offset is committed only when its message and every earlier one received in this assignment are
done. Batches may finish in any order.
"""

from collections import deque
from collections.abc import Iterable


class PartitionOffsets:
    """The received and not yet done offsets of one partition in one assignment. Offsets only grow; gaps are normal.

    A lost and re-assigned partition gets a new object, so late results of the old one cannot move it.
    """

    __slots__ = ("_last_received", "_low_water", "_open", "_order", "_requested")

    def __init__(self) -> None:
        self._order: deque[int] = deque()
        self._open: set[int] = set()
        self._last_received: int | None = None
        self._low_water: int | None = None
        self._requested: int | None = None

    @property
    def expected(self) -> int | None:
        """The offset after the last received one; None before the first."""
        return None if self._last_received is None else self._last_received + 1

    @property
    def low_water(self) -> int | None:
        """What may be committed: the next offset to work on after a restart. None if nothing was done yet."""
        return self._low_water

    @property
    def open_count(self) -> int:
        """Messages received and not done."""
        return len(self._open)

    def received(self, offset: int) -> None:
        """Record a message as received; ValueError unless it is above the last one (a rewind needs a new object)."""
        if self._last_received is not None and offset <= self._last_received:
            raise ValueError(f"offset {offset} is not above {self._last_received}: the partition was rewound")
        self._last_received = offset
        self._order.append(offset)
        self._open.add(offset)

    def done(self, offsets: Iterable[int]) -> None:
        """Record messages as done, in any order; ValueError for one that is not open."""
        for offset in offsets:
            if offset not in self._open:
                raise ValueError(f"offset {offset} is not open")
            self._open.remove(offset)
        while self._order and self._order[0] not in self._open:
            self._low_water = self._order.popleft() + 1

    def to_commit(self) -> int | None:
        """The low-water offset if it was not requested yet, else None."""
        return None if self._low_water == self._requested else self._low_water

    def commit_requested(self, offset: int) -> None:
        """Remember that `offset` is on its way, so that it is not asked for again."""
        self._requested = offset

    def commit_failed(self) -> None:
        """Let the low-water offset be asked for again."""
        self._requested = None


def skipped(committed: int | None, first: int) -> bool:
    """Whether messages between the committed offset and the first received one are gone (K8): retention was shorter
    than the absence. Transactional writers leave gaps of their own, so the caller compares with the log's start.
    """
    return committed is not None and first > committed


def started_over(committed: int | None, first: int, age_sec: float, *, recent_sec: float = 300.0) -> bool:
    """Whether a group without a committed offset begins on messages that it probably worked on before (K8).

    A new group on a new topic begins at offset 0 with recent messages; anything else means that the group's offsets
    expired, or that it was started on a topic with a past. Both are worth an alert.
    """
    return committed is None and (first > 0 or age_sec > recent_sec)
