"""Places on a wire: never more than there are, never waited for in vain."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from shared.delivery.wire import Wire


async def test_takes_what_is_free_and_waits_for_a_fair_part() -> None:
    wire = Wire(8)
    six, two = await wire.take(6), await wire.take(6)
    assert (six.count, two.count) == (6, 2)
    waiting = asyncio.create_task(wire.take(8))
    await two.leave()
    assert (await waiting).count == 2


async def test_one_place_is_enough_for_one_and_left_once() -> None:
    wire = Wire(1)
    place = await wire.take(1)
    waiting = asyncio.create_task(wire.take(1))
    await place.leave()
    await place.leave()
    await waiting
    another = asyncio.create_task(wire.take(1))
    await asyncio.sleep(0)
    assert not another.done()
    another.cancel()


@given(places=st.integers(1, 20), wanted=st.lists(st.integers(1, 30), max_size=20))
def test_never_more_than_there_are(places: int, wanted: list[int]) -> None:
    async def run() -> None:
        wire, held = Wire(places), 0

        async def user(count: int) -> None:
            nonlocal held
            while count:
                taken = await wire.take(count)
                held += taken.count
                assert 1 <= taken.count <= count
                assert held <= places
                await asyncio.sleep(0)
                held -= taken.count
                count -= taken.count
                await taken.leave()

        await asyncio.wait_for(asyncio.gather(*(user(count) for count in wanted)), 10)

    asyncio.run(run())
