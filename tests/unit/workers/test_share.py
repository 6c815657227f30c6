"""The weighted shares of a process that serves several classes (seed 004: 30/30/30/10)."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.workers.share import Shares, guaranteed, next_class
from shared.wire.channel import MessageClass

CRITICAL, TX, BULK, LOW = MessageClass


@pytest.mark.parametrize(
    ("classes", "slots", "own"),
    [
        pytest.param([CRITICAL, TX, BULK, LOW], 10, {CRITICAL: 3, TX: 3, BULK: 3, LOW: 1}, id="seed-004"),
        pytest.param([CRITICAL, TX, BULK, LOW], 20, {CRITICAL: 6, TX: 6, BULK: 6, LOW: 2}, id="twice-as-many"),
        pytest.param([TX, BULK], 10, {TX: 5, BULK: 5}, id="only-what-is-served"),
        pytest.param([BULK, LOW], 10, {BULK: 7, LOW: 2}, id="one-is-lent"),
        pytest.param([CRITICAL, TX, BULK, LOW], 1, {CRITICAL: 1, TX: 1, BULK: 1, LOW: 1}, id="nobody-starves"),
    ],
)
def test_slots_of_ones_own(classes: list[MessageClass], slots: int, own: Mapping[MessageClass, int]) -> None:
    assert guaranteed(classes, slots) == own


OWN = {CRITICAL: 3, TX: 3, BULK: 3, LOW: 1}


@pytest.mark.parametrize(
    ("waiting", "busy", "chosen"),
    [
        pytest.param([], {}, None, id="nobody-waits"),
        pytest.param([BULK], {BULK: 9}, BULK, id="idle-slots-are-lent"),
        pytest.param([BULK], {BULK: 10}, None, id="all-are-taken"),
        pytest.param([BULK, CRITICAL], {BULK: 10}, CRITICAL, id="lent-slots-do-not-hold-the-owner-up"),
        pytest.param([LOW], {CRITICAL: 3, TX: 3, BULK: 4}, LOW, id="low-does-not-starve"),
        pytest.param([LOW, BULK], {LOW: 1, BULK: 3}, BULK, id="lent-by-weight"),
        pytest.param([LOW, BULK], {LOW: 1, BULK: 4}, LOW, id="and-not-to-the-heaviest-alone"),
        pytest.param([TX, CRITICAL], {}, CRITICAL, id="the-more-urgent-first"),
    ],
)
def test_whose_batch_begins(
    waiting: list[MessageClass], busy: Mapping[MessageClass, int], chosen: MessageClass | None
) -> None:
    assert next_class(waiting, busy, OWN, 10) == chosen


@given(
    st.lists(st.sampled_from(list(MessageClass)), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(list(MessageClass)), st.integers(0, 12)),
)
def test_a_class_below_its_own_never_waits_and_nothing_idle_is_kept_back(
    waiting: list[MessageClass], busy: Mapping[MessageClass, int]
) -> None:
    chosen = next_class(waiting, busy, OWN, 10)
    if any(busy.get(each, 0) < OWN[each] for each in waiting):
        assert chosen is not None
        assert busy.get(chosen, 0) < OWN[chosen]
    else:
        assert (chosen is not None) == (sum(busy.values()) < 10)


async def test_a_backlog_of_everybody_is_worked_by_weight() -> None:
    shares, done, order = Shares(list(MessageClass), 10), Counter[MessageClass](), 0

    async def batch(message_class: MessageClass) -> None:
        nonlocal order
        async with shares.turn(message_class):
            await asyncio.sleep(0)
            order += 1
            if order <= 500:
                done[message_class] += 1

    await asyncio.gather(*(batch(each) for each in MessageClass for _ in range(400)))
    assert {each: round(count / 50) for each, count in done.items()} == {CRITICAL: 3, TX: 3, BULK: 3, LOW: 1}


async def test_a_cancelled_wait_and_a_failed_batch_give_their_turns_back() -> None:
    shares = Shares([TX], 1)
    began, hold = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with shares.turn(TX):
            began.set()
            await hold.wait()
            raise RuntimeError("the batch failed")

    async def second() -> None:
        async with shares.turn(TX):
            raise AssertionError("the only slot is taken")

    running = asyncio.create_task(first())
    await began.wait()
    waiting = asyncio.create_task(second())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    hold.set()
    with pytest.raises(RuntimeError, match="the batch failed"):
        await running
    async with asyncio.timeout(60), shares.turn(TX):
        pass


async def test_a_turn_granted_in_the_moment_of_a_cancel_is_not_lost() -> None:
    shares = Shares([TX], 1)
    entered = asyncio.Event()

    async def batch() -> None:
        async with shares.turn(TX):
            entered.set()

    async with shares.turn(TX):
        waiting = asyncio.create_task(batch())
        await asyncio.sleep(0)
    waiting.cancel()  # its turn is granted by now, and it has not run since
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not entered.is_set()
    async with asyncio.timeout(60), shares.turn(TX):
        pass
