"""What is paused, and why."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kafka.intake import (
    BufferLimits,
    IntakePlan,
    PartitionState,
    PauseReason,
    RetryDelay,
    idle_poll_sec,
    pause_reason,
    plan_intake,
)
from shared.kafka.record import Partition

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=10)
P0, P1, P2 = (Partition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("state", "full", "failing", "stopping", "reason"),
    [
        pytest.param(PartitionState(), False, False, False, None, id="read"),
        pytest.param(PartitionState(), True, False, False, PauseReason.BUFFER_FULL, id="full"),
        pytest.param(PartitionState(head_due=LATER), False, False, False, PauseReason.NOT_DUE, id="not-due"),
        pytest.param(PartitionState(head_due=NOW), False, False, False, None, id="due-to-the-instant"),
        pytest.param(PartitionState(LATER, held=True), True, False, False, PauseReason.HELD, id="held"),
        pytest.param(PartitionState(NOW, held=True), False, False, False, PauseReason.HELD, id="held-while-looked-at"),
        pytest.param(
            PartitionState(LATER, held=True), True, True, False, PauseReason.DEAD_LETTERS_FAILING, id="dead-letters"
        ),
        pytest.param(PartitionState(LATER, held=True), True, True, True, PauseReason.STOPPING, id="stopping"),
    ],
)
def test_the_strongest_reason_counts(
    state: PartitionState, full: bool, failing: bool, stopping: bool, reason: PauseReason | None
) -> None:
    assert pause_reason(state, NOW, full=full, dead_letters_failing=failing, stopping=stopping) is reason


def test_while_the_lane_is_paused_all_its_partitions_are() -> None:
    states = {P0: PartitionState(), P1: PartitionState(LATER)}
    plan = plan_intake(states, frozenset({P1}), NOW, resting=True)
    assert (plan.pause, plan.resume) == ((P0,), ())
    assert set(plan.reasons.values()) == {PauseReason.PAUSED}
    assert plan_intake(states, frozenset({P0, P1}), NOW).resume == (P0,)


def test_only_a_delayed_partition_is_paused_K6() -> None:
    states = {P0: PartitionState(head_due=LATER), P1: PartitionState(), P2: PartitionState(head_due=NOW)}
    assert plan_intake(states, frozenset({P2}), NOW) == IntakePlan(
        pause=(P0,), resume=(P2,), reasons={P0: PauseReason.NOT_DUE}, look_again_at=LATER
    )


def test_what_is_paused_already_is_left_alone_K5() -> None:
    plan = plan_intake({P0: PartitionState(head_due=LATER)}, frozenset({P0}), NOW)
    assert (plan.pause, plan.resume) == ((), ())


def test_partitions_that_are_gone_are_not_resumed() -> None:
    assert plan_intake({P0: PartitionState()}, frozenset({P0, P1}), NOW).resume == (P0,)


@given(
    st.dictionaries(
        st.sampled_from([P0, P1, P2]),
        st.builds(PartitionState, st.none() | st.sampled_from([NOW - timedelta(1), NOW, LATER]), st.booleans()),
    ),
    st.frozensets(st.sampled_from([P0, P1, P2])),
    st.booleans(),
    st.booleans(),
)
def test_after_a_plan_exactly_those_with_a_reason_are_paused(
    states: dict[Partition, PartitionState], paused: frozenset[Partition], full: bool, failing: bool
) -> None:
    plan = plan_intake(states, paused, NOW, full=full, dead_letters_failing=failing)
    after = (paused | set(plan.pause)) - set(plan.resume)
    assert after & states.keys() == plan.reasons.keys()
    again = plan_intake(states, after, NOW, full=full, dead_letters_failing=failing)
    assert (again.pause, again.resume) == ((), ())


def test_a_buffer_rests_from_full_down_to_low() -> None:
    limits = BufferLimits(high=400, low=200)
    assert not limits.full(399, was_full=False)
    assert limits.full(400, was_full=False)
    assert limits.full(201, was_full=True)
    assert not limits.full(200, was_full=True)


def test_a_buffer_holds_more_than_all_handlers_take_at_once() -> None:
    limits = BufferLimits.for_batches(100, 4)
    assert limits.high > limits.low >= 4 * 100


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(1, 0.0, 0.5), (1, 1.0, 1.0), (2, 1.0, 2.0), (4, 0.5, 6.0), (5, 1.0, 10.0), (10_000, 0.0, 5.0)],
)
def test_retry_delay_doubles_to_its_cap(attempt: int, jitter: float, seconds: float) -> None:
    assert RetryDelay(base_sec=1.0, cap_sec=10.0).after(attempt, jitter) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("quiet_sec", "has_work", "waits_sec"),
    [(0.0, False, 0.1), (9.9, False, 0.1), (10.0, False, 0.5), (3600.0, False, 0.5), (3600.0, True, 0.1)],
)
def test_a_consumer_that_hears_nothing_looks_less_often(quiet_sec: float, has_work: bool, waits_sec: float) -> None:
    """What is buffered or in flight is looked after as often as ever."""
    assert idle_poll_sec(quiet_sec=quiet_sec, has_work=has_work) == waits_sec
