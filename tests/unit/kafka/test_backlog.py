"""What is handed out, what counts, and what is stale."""

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from shared.kafka.backlog import Backlog, Entry, Raw
from shared.kafka.intake import PartitionState
from shared.kafka.record import Partition, Received

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
P0, P1 = Partition("t", 0), Partition("t", 1)


def entry(partition: Partition, offset: int, *, due: datetime | None = None, held: bool = False) -> Entry[int]:
    received = Received(offset, partition.topic, partition.number, offset, None, {}, NOW)
    return Entry(partition, offset, Raw(None, b"", ()), NOW, NOW, None if held else received, None, held, due)


def backlog(*entries: Entry[int]) -> Backlog[int]:
    filled: Backlog[int] = Backlog()
    filled.assign([P0, P1])
    for each in entries:
        assert filled.add(each)
    return filled


def where(entries: list[Entry[int]]) -> set[tuple[int, int]]:
    return {(each.partition.number, each.offset) for each in entries}


def test_only_what_is_finished_and_all_before_it_is_committed_K1() -> None:
    work = backlog(entry(P0, 0), entry(P0, 1), entry(P0, 2), entry(P1, 7))
    first, second = work.take(2, NOW), work.take(2, NOW)
    work.finish(second)
    open_offsets = {(each.partition, each.offset) for each in first}
    for partition, offset in work.to_commit().items():
        assert all(o >= offset for p, o in open_offsets if p == partition)
    work.finish(first)
    assert work.low_waters() == {P0: 3, P1: 8}
    assert work.in_flight() == 0


def test_results_of_a_lost_assignment_do_not_move_the_next_one_K4() -> None:
    work = backlog(entry(P0, 10), entry(P0, 11))
    old = work.take(10, NOW)
    work.drop([P0])
    work.assign([P0])
    work.add(entry(P0, 10))
    work.finish(old)
    assert work.to_commit() == {}
    assert work.live(old) == []
    new = work.take(10, NOW)
    work.release(old)
    assert work.in_flight() == 1
    work.finish(new)
    assert work.to_commit() == {P0: 11}


def test_a_rewound_partition_begins_afresh_K8() -> None:
    work = backlog(entry(P0, 500), entry(P0, 501))
    old = work.take(1, NOW)
    assert work.add(entry(P0, 0))
    work.finish(old)
    assert work.to_commit() == {}
    assert where(work.take(10, NOW)) == {(0, 0)}
    assert work.buffered == 0


def test_a_draining_partition_hands_nothing_out_but_counts_what_finishes_K3() -> None:
    work = backlog(entry(P0, 0), entry(P0, 1), entry(P1, 0))
    taken = [each for each in work.take(1, NOW) + work.take(1, NOW) if each.partition == P0]
    work.drain([P0])
    assert not work.add(entry(P0, 2))
    assert all(each.partition == P1 for each in work.take(10, NOW))
    assert work.live(taken) == []
    assert work.in_flight([P0]) == len(taken)
    work.finish(taken)
    assert work.in_flight([P0]) == 0
    assert work.to_commit([P0]) == {P0: 1}


def test_messages_of_partitions_that_are_not_ours_are_ignored() -> None:
    assert not backlog().add(entry(Partition("t", 9), 0))


def test_a_head_that_is_not_due_blocks_its_own_partition_only_K6() -> None:
    work = backlog(entry(P0, 0, due=LATER), entry(P0, 1), entry(P1, 0), entry(P1, 1, due=NOW))
    assert where(work.take(10, NOW)) == {(1, 0), (1, 1)}
    assert work.states() == {P0: PartitionState(head_due=LATER), P1: PartitionState()}
    assert where(work.take(10, LATER)) == {(0, 0), (0, 1)}


def test_a_held_message_is_never_handed_out_however_late() -> None:
    work = backlog(entry(P0, 0), entry(P0, 1, due=LATER, held=True), entry(P0, 2))
    assert where(work.take(10, LATER)) == {(0, 0)}
    assert work.held_due(NOW) == []
    assert [each.offset for each in work.held_due(LATER)] == [1]
    assert work.states()[P0] == PartitionState(LATER, held=True)


def test_what_waits_or_is_held_is_no_work_at_hand_K6() -> None:
    work = backlog(entry(P0, 0, due=LATER), entry(P0, 1), entry(P1, 0), entry(P1, 1))
    assert (work.buffered, work.workable(NOW), work.workable(LATER)) == (4, 2, 4)
    held = backlog(entry(P0, 0, due=NOW, held=True), entry(P0, 1), entry(P1, 0))
    assert held.workable(LATER) == 1


def test_partitions_take_turns_at_going_first() -> None:
    work = backlog(*(entry(partition, offset) for partition in (P0, P1) for offset in range(4)))
    assert {work.take(1, NOW)[0].partition for _ in range(2)} == {P0, P1}


class Life(RuleBasedStateMachine):
    """Whatever the order of arrival, work, revocation and reassignment: no commit passes a message of the same
    assignment that is not finished, and no message vanishes from an assignment."""

    batches = Bundle("batches")

    def __init__(self) -> None:
        super().__init__()
        self.work: Backlog[int] = Backlog()
        self.next_offset = {P0: 0, P1: 0}
        self.undone: dict[Partition, set[int]] = {P0: set(), P1: set()}
        self.epoch = {P0: 0, P1: 0}
        self.reassign(P0)
        self.reassign(P1)

    @rule(partition=st.sampled_from([P0, P1]))
    def reassign(self, partition: Partition) -> None:
        self.work.assign([partition])
        self.epoch[partition] += 1
        self.undone[partition] = set()

    @rule(partition=st.sampled_from([P0, P1]), gap=st.integers(0, 2))
    def arrive(self, partition: Partition, gap: int) -> None:
        offset = self.next_offset[partition] + gap
        self.next_offset[partition] = offset + 1
        assert self.work.add(entry(partition, offset))
        self.undone[partition].add(offset)

    @rule(target=batches, limit=st.integers(1, 4))
    def take(self, limit: int) -> tuple[list[Entry[int]], dict[Partition, int]]:
        return self.work.take(limit, NOW), dict(self.epoch)

    @rule(batch=consumes(batches))
    def finish(self, batch: tuple[list[Entry[int]], dict[Partition, int]]) -> None:
        entries, epochs = batch
        self.work.finish(entries)
        for each in entries:
            if epochs[each.partition] == self.epoch[each.partition]:
                self.undone[each.partition].discard(each.offset)

    @rule(batch=consumes(batches))
    def give_up(self, batch: tuple[list[Entry[int]], dict[Partition, int]]) -> None:
        self.work.release(batch[0])

    @invariant()
    def commits_never_pass_undone_work(self) -> None:
        for partition, low_water in self.work.low_waters().items():
            assert low_water is None or all(offset >= low_water for offset in self.undone[partition])
        assert self.work.in_flight() >= 0
        assert self.work.buffered >= 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
