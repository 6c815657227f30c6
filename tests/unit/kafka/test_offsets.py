"""What may be committed: never past a message that is not done (K1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kafka.offsets import PartitionOffsets, skipped, started_over


def offsets_with(*received: int) -> PartitionOffsets:
    offsets = PartitionOffsets()
    for offset in received:
        offsets.received(offset)
    return offsets


@pytest.mark.parametrize(
    ("received", "done", "low_water"),
    [
        pytest.param((5, 6, 7), (), None, id="nothing-done"),
        pytest.param((5, 6, 7), (5,), 6, id="first"),
        pytest.param((5, 6, 7), (6, 7), None, id="later-ones-wait-for-the-first"),
        pytest.param((5, 6, 7), (7, 5), 6, id="up-to-the-hole"),
        pytest.param((5, 6, 7), (7, 6, 5), 8, id="all-in-reverse"),
        pytest.param((5, 9, 12), (9, 5), 10, id="gaps-in-the-log-are-no-holes"),
        pytest.param((0,), (0,), 1, id="the-very-first-message"),
    ],
)
def test_low_water(received: tuple[int, ...], done: tuple[int, ...], low_water: int | None) -> None:
    offsets = offsets_with(*received)
    offsets.done(done)
    assert offsets.low_water == low_water


@given(st.data())
def test_never_past_an_open_message_in_any_order_of_completion_K1(data: st.DataObject) -> None:
    received = sorted(data.draw(st.sets(st.integers(0, 200), min_size=1, max_size=40)))
    order = data.draw(st.permutations(received))
    offsets = offsets_with(*received)
    still_open = set(received)
    for offset in order:
        offsets.done([offset])
        still_open.discard(offset)
        low_water = offsets.low_water
        if low_water is not None:
            assert not any(waiting < low_water for waiting in still_open)
        if not still_open:
            assert low_water == received[-1] + 1
        assert offsets.open_count == len(still_open)


def test_an_offset_is_asked_for_once_until_its_commit_fails() -> None:
    offsets = offsets_with(1, 2)
    offsets.done([1])
    assert offsets.to_commit() == 2
    offsets.commit_requested(2)
    assert offsets.to_commit() is None
    offsets.commit_failed()
    assert offsets.to_commit() == 2
    offsets.commit_requested(2)
    offsets.done([2])
    assert offsets.to_commit() == 3


def test_a_rewind_is_refused() -> None:
    with pytest.raises(ValueError, match="rewound"):
        offsets_with(4, 4)


@pytest.mark.parametrize("offset", [3, 8])
def test_what_was_not_received_cannot_be_done(offset: int) -> None:
    with pytest.raises(ValueError, match="not open"):
        offsets_with(4, 5).done([offset])


@pytest.mark.parametrize(
    ("committed", "first", "lost"),
    [(10, 10, False), (10, 11, True), (None, 50, False)],
)
def test_messages_between_committed_and_first_are_gone_K8(committed: int | None, first: int, lost: bool) -> None:
    assert skipped(committed, first) is lost


@pytest.mark.parametrize(
    ("committed", "first", "age_sec", "alert"),
    [
        pytest.param(None, 0, 1.0, False, id="new-group-new-topic"),
        pytest.param(None, 0, 3_600.0, True, id="old-messages"),
        pytest.param(None, 700, 1.0, True, id="a-log-with-a-past"),
        pytest.param(0, 0, 3_600.0, False, id="has-offsets"),
    ],
)
def test_a_group_that_starts_over_is_told_from_a_new_one_K8(
    committed: int | None, first: int, age_sec: float, alert: bool
) -> None:
    assert started_over(committed, first, age_sec) is alert
