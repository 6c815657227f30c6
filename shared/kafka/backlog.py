"""What a consumer has received and not yet finished: queues, epochs and offsets per partition. Pure; the caller locks.

Life of an entry: added -> taken (in flight) -> finished, or released unfinished. Entries carry the epoch of their
assignment: results of an assignment that was lost or rewound change nothing of the next one (K4, K5).
"""

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from shared.kafka.intake import PartitionState
from shared.kafka.offsets import PartitionOffsets
from shared.kafka.record import Partition, Received

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Raw:
    """A message as it was on the topic, for its dead letter."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message could not be decoded."""

    reason: str
    detail: str


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """One received message on its way: `received` is None if it has a `problem` or is `held`.

    A held one was written by a newer release: nothing of its partition is handed out past it, and `due` says when to
    look again.
    """

    partition: Partition
    offset: int
    raw: Raw
    first_seen: datetime
    timestamp: datetime
    received: Received[T] | None = None
    problem: Problem | None = None
    held: bool = False
    due: datetime | None = None
    epoch: int = 0


@dataclass(slots=True)
class _Assignment(Generic[T]):
    epoch: int
    offsets: PartitionOffsets = field(default_factory=PartitionOffsets)
    queue: deque[Entry[T]] = field(default_factory=deque)
    in_flight: int = 0
    draining: bool = False


class Backlog(Generic[T]):
    """Every assigned partition's entries, in offset order."""

    def __init__(self) -> None:
        self._assignments: dict[Partition, _Assignment[T]] = {}
        self._epochs = 0
        self._turn = 0
        self.buffered = 0
        """Entries added and not yet taken."""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(self._assignments)

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Begin afresh with these partitions; what was known of them is stale from now on."""
        for partition in partitions:
            self.drop([partition])
            self._epochs += 1
            self._assignments[partition] = _Assignment(self._epochs)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that are no longer ours; unknown ones are ignored."""
        for partition in partitions:
            gone = self._assignments.pop(partition, None)
            if gone is not None:
                self.buffered -= len(gone.queue)

    def drain(self, partitions: Iterable[Partition]) -> None:
        """Hand nothing more of these partitions out, and forget what was not taken yet."""
        for partition in partitions:
            assignment = self._assignments.get(partition)
            if assignment is not None:
                assignment.draining = True
                self._clear(assignment)

    def expected(self, partition: Partition) -> int | None:
        """The offset after the last one received in this assignment; None if unknown."""
        assignment = self._assignments.get(partition)
        return None if assignment is None else assignment.offsets.expected

    def add(self, entry: Entry[T]) -> bool:
        """Take one received message in. False if its partition is not (or no longer) read: it is not ours to finish.

        One at or below an offset received before means that the partition is being read again from there: everything
        known of it is stale, and its bookkeeping begins afresh with this message.
        """
        assignment = self._assignments.get(entry.partition)
        if assignment is None or assignment.draining:
            return False
        expected = assignment.offsets.expected
        if expected is not None and entry.offset < expected:
            self.assign([entry.partition])
            assignment = self._assignments[entry.partition]
        entry.epoch = assignment.epoch
        assignment.offsets.received(entry.offset)
        assignment.queue.append(entry)
        self.buffered += 1
        return True

    def held_due(self, now: datetime) -> list[Entry[T]]:
        """The held entries at the head of their partition that are to be looked at again."""
        heads = [assignment.queue[0] for assignment in self._assignments.values() if assignment.queue]
        return [entry for entry in heads if entry.held and _is_due(entry, now)]

    def take(self, limit: int, now: datetime) -> list[Entry[T]]:
        """Up to `limit` entries that are due, partitions taking turns at going first; they are in flight then."""
        taken: list[Entry[T]] = []
        assignments = list(self._assignments.values())
        self._turn += 1
        for index in range(len(assignments)):
            assignment = assignments[(self._turn + index) % len(assignments)]
            before = len(taken)
            queue = assignment.queue
            while queue and len(taken) < limit:
                head = queue[0]
                if head.held or not _is_due(head, now):
                    break
                taken.append(queue.popleft())
            assignment.in_flight += len(taken) - before
        self.buffered -= len(taken)
        return taken

    def live(self, entries: Iterable[Entry[T]]) -> list[Entry[T]]:
        """Those entries that are still ours and not being given up."""
        return [entry for entry in entries if self._live(entry)]

    def workable(self, now: datetime) -> int:
        """Buffered entries of partitions whose head may be worked on. What waits for its time or is held must not
        count as work at hand, or it would stop the other partitions.
        """
        return sum(
            len(assignment.queue)
            for assignment in self._assignments.values()
            if assignment.queue and not assignment.queue[0].held and _is_due(assignment.queue[0], now)
        )

    def finish(self, entries: Iterable[Entry[T]]) -> None:
        """The work of these entries is durable: their offsets count. Stale ones are ignored."""
        done: dict[Partition, list[int]] = {}
        for entry in entries:
            if self._assignment_of(entry) is not None:
                done.setdefault(entry.partition, []).append(entry.offset)
        for partition, offsets in done.items():
            assignment = self._assignments[partition]
            assignment.in_flight -= len(offsets)
            assignment.offsets.done(offsets)

    def release(self, entries: Iterable[Entry[T]]) -> None:
        """These entries are no longer worked on and not done; their offsets stay uncommitted."""
        for entry in entries:
            assignment = self._assignment_of(entry)
            if assignment is not None:
                assignment.in_flight -= 1

    def in_flight(self, partitions: Collection[Partition] | None = None) -> int:
        """Entries taken and neither finished nor released, of some partitions or of all."""
        return sum(
            assignment.in_flight
            for partition, assignment in self._assignments.items()
            if partitions is None or partition in partitions
        )

    def to_commit(self, partitions: Collection[Partition] | None = None) -> dict[Partition, int]:
        """The low-water offsets not yet asked for, marked as asked for."""
        offsets: dict[Partition, int] = {}
        for partition, assignment in self._assignments.items():
            if partitions is not None and partition not in partitions:
                continue
            offset = assignment.offsets.to_commit()
            if offset is not None:
                assignment.offsets.commit_requested(offset)
                offsets[partition] = offset
        return offsets

    def commit_failed(self, partitions: Iterable[Partition]) -> None:
        """Let the low-water offsets of these partitions be asked for again."""
        for partition in partitions:
            assignment = self._assignments.get(partition)
            if assignment is not None:
                assignment.offsets.commit_failed()

    def low_waters(self) -> dict[Partition, int | None]:
        """The next offset to commit of every partition; None where nothing was finished yet."""
        return {partition: assignment.offsets.low_water for partition, assignment in self._assignments.items()}

    def states(self) -> dict[Partition, PartitionState]:
        """What the intake decides on."""
        return {
            partition: PartitionState(assignment.queue[0].due, assignment.queue[0].held)
            if assignment.queue
            else PartitionState()
            for partition, assignment in self._assignments.items()
        }

    def _assignment_of(self, entry: Entry[T]) -> _Assignment[T] | None:
        assignment = self._assignments.get(entry.partition)
        return assignment if assignment is not None and assignment.epoch == entry.epoch else None

    def _live(self, entry: Entry[T]) -> bool:
        assignment = self._assignment_of(entry)
        return assignment is not None and not assignment.draining

    def _clear(self, assignment: _Assignment[T]) -> None:
        self.buffered -= len(assignment.queue)
        assignment.queue.clear()


def _is_due(entry: Entry[T], now: datetime) -> bool:
    return entry.due is None or entry.due <= now
