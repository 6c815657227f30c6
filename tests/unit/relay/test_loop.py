import pytest

from services.relay.loop import Loop, back_off_sec, rest_sec
from shared.runtime.service import Stop


@pytest.mark.parametrize(
    ("failures", "rest_sec"),
    [(0, 0.0), (1, 0.2), (2, 0.4), (3, 0.8), (7, 12.8), (8, 15.0), (1000, 15.0)],
)
def test_rest_doubles_up_to_fifteen_seconds(failures: int, rest_sec: float) -> None:
    assert back_off_sec(failures) == pytest.approx(rest_sec)


async def test_goes_on_at_once_while_there_is_more_and_stops_between_rounds() -> None:
    stop, rounds = Stop(), 0

    async def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 5:
            stop.request()
        return True

    await Loop("test", work, idle_sec=3600).run(stop)

    assert rounds == 5


async def test_wake_ends_the_rest_of_an_idle_loop() -> None:
    stop, rounds = Stop(), 0

    async def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            stop.request()
        else:
            loop.wake()
        return False

    loop = Loop("test", work, idle_sec=3600)
    await loop.run(stop)

    assert rounds == 2


async def test_one_good_round_makes_a_failing_loop_healthy_again() -> None:
    stop = Stop()

    async def succeed() -> bool:
        stop.request()
        return False

    loop = Loop("test", succeed, idle_sec=3600, failures=3)
    assert not loop.healthy()
    await loop.run(stop)

    assert loop.healthy()


async def test_a_failure_is_counted_and_does_not_end_the_loop() -> None:
    stop = Stop()

    async def fail() -> bool:
        stop.request()
        raise RuntimeError("not now")

    loop = Loop("test", fail, idle_sec=3600)
    await loop.run(stop)

    assert loop.failures == 1


@pytest.mark.parametrize(
    ("longest_sec", "empty_rounds", "rests_sec"),
    [(None, 50, 0.1), (2.0, 0, 0.1), (2.0, 1, 0.2), (2.0, 4, 1.6), (2.0, 5, 2.0), (2.0, 10**6, 2.0), (0.05, 9, 0.1)],
)
def test_rests_grow_while_nothing_is_found(longest_sec: float | None, empty_rounds: int, rests_sec: float) -> None:
    assert rest_sec(0.1, longest_sec, empty_rounds) == pytest.approx(rests_sec)
