"""Slots bound what is on the wire over all batches, and answer for each message once."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.core.outcome import Accepted, Ambiguous, NotSent, Outcome
from shared.core.ports import Prepared, SendWindow
from shared.core.reference import DeliveryKey
from shared.providers.slots import Slots
from shared.wire.channel import MessageClass

WINDOW = SendWindow(5.0)


def messages(count: int, *, first: int = 0) -> list[Prepared]:
    return [
        Prepared(
            key=DeliveryKey(UUID(int=number), "SMS", b"k"),
            attempt=1,
            address=f"{number}",
            content={},
            message_class=MessageClass.TX,
            expires_at=datetime(2026, 1, 15, tzinfo=UTC) + timedelta(hours=1),
        )
        for number in range(first, first + count)
    ]


class Wire:
    """Sends that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    async def send(self, message: Prepared, _deadline_sec: float) -> Outcome:
        self.begun.append(message.address)
        self.gates[message.address] = asyncio.Event()
        try:
            await self.gates[message.address].wait()
        except asyncio.CancelledError:
            self.cancelled.append(message.address)
            raise
        return Accepted(message.address)


async def settled() -> None:
    """Until every task has had its turns; nothing here waits for anything but the wire."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_outcomes_are_in_the_batchs_order_and_batches_share_the_places() -> None:
    slots, wire = Slots(3), Wire()
    one = asyncio.create_task(slots.send_each(messages(2), wire.send, WINDOW))
    two = asyncio.create_task(slots.send_each(messages(3, first=2), wire.send, WINDOW))
    await settled()
    assert wire.begun == ["0", "1", "2"]
    wire.gates["1"].set()
    await settled()
    assert wire.begun == ["0", "1", "2", "3"]
    for number in ("0", "2", "3"):
        wire.gates[number].set()
    await settled()
    wire.gates["4"].set()
    assert await one == [Accepted("0"), Accepted("1")]
    assert await two == [Accepted("2"), Accepted("3"), Accepted("4")]


async def test_more_places_begin_at_once_and_places_too_many_end_as_they_come_free() -> None:
    slots, wire = Slots(1), Wire()
    sending = asyncio.create_task(slots.send_each(messages(6), wire.send, WINDOW))
    await settled()
    assert wire.begun == ["0"]
    slots.resize(3)
    await settled()
    assert wire.begun == ["0", "1", "2"]
    slots.resize(1)
    for number, begun in (("0", 3), ("2", 3), ("1", 4), ("3", 5), ("4", 6), ("5", 6)):
        wire.gates[number].set()
        await settled()
        assert len(wire.begun) == begun
    assert await sending == [Accepted(f"{number}") for number in range(6)]


async def test_cancelled_takes_its_own_off_the_wire_and_leaves_the_others() -> None:
    slots, wire = Slots(1), Wire()
    one = asyncio.create_task(slots.send_each(messages(2), wire.send, WINDOW))
    two = asyncio.create_task(slots.send_each(messages(1, first=2), wire.send, WINDOW))
    await settled()
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    await settled()
    assert (wire.cancelled, wire.begun) == (["0"], ["0", "2"])
    wire.gates["2"].set()
    assert await two == [Accepted("2")]


async def test_surprise_is_ambiguous_for_its_message_alone() -> None:
    async def send(message: Prepared, _deadline_sec: float) -> Outcome:
        if message.address == "1":
            raise LookupError
        return Accepted(message.address)

    outcomes = await Slots(2).send_each(messages(3), send, WINDOW)
    assert outcomes == [Accepted("0"), Ambiguous("surprise: LookupError", unrecognised=True), Accepted("2")]


async def test_window_is_asked_before_each_start() -> None:
    open_for = iter([True, False, False])
    window = SendWindow(5.0, lambda: next(open_for))
    begun: list[str] = []

    async def send(message: Prepared, _deadline_sec: float) -> Outcome:
        begun.append(message.address)
        return Accepted(message.address)

    outcomes = await Slots(1).send_each(messages(3), send, window)
    assert (begun, [type(outcome) for outcome in outcomes]) == (["0"], [Accepted, NotSent, NotSent])


async def test_nothing_to_send_is_nothing() -> None:
    assert await Slots(1).send_each([], Wire().send, WINDOW) == []


async def test_a_group_is_one_call_with_an_outcome_each() -> None:
    calls: list[list[str]] = []

    async def send(group: Sequence[Prepared], _deadline_sec: float) -> Sequence[Outcome]:
        calls.append([message.address for message in group])
        return [Accepted(message.address) for message in group]

    one, two, three, four = messages(4)
    outcomes = await Slots(1).send_groups([[one], [two, three], [four]], send, WINDOW)
    assert calls == [["0"], ["1", "2"], ["3"]]
    assert outcomes == [Accepted("0"), Accepted("1"), Accepted("2"), Accepted("3")]


async def test_surprise_is_ambiguous_for_its_group_alone() -> None:
    async def send(group: Sequence[Prepared], _deadline_sec: float) -> Sequence[Outcome]:
        if len(group) == 2:
            raise LookupError
        return [Accepted(message.address) for message in group]

    one, two, three = messages(3)
    surprise = Ambiguous("surprise: LookupError", unrecognised=True)
    assert await Slots(2).send_groups([[one, two], [three]], send, WINDOW) == [surprise, surprise, Accepted("2")]


async def test_a_group_that_may_not_start_is_not_sent_as_a_whole() -> None:
    open_for = iter([True, False])

    async def send(group: Sequence[Prepared], _deadline_sec: float) -> Sequence[Outcome]:
        return [Accepted(message.address) for message in group]

    one, two, three = messages(3)
    outcomes = await Slots(1).send_groups([[one], [two, three]], send, SendWindow(5.0, lambda: next(open_for)))
    assert [type(outcome) for outcome in outcomes] == [Accepted, NotSent, NotSent]
