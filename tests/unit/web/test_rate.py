"""The token bucket: by a clock of the test."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.web.rate import Bucket, RateLimiter

KEY = UUID(int=1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_second_holds_as_many_as_the_rate() -> None:
    clock = Clock()
    limiter = RateLimiter(default_rate=None, clock=clock)
    assert [limiter.take(KEY, 3) for _ in range(5)] == [None, None, None, 1, 1]
    clock.now += 0.34
    assert [limiter.take(KEY, 3) for _ in range(2)] == [None, 1]


def test_no_rate_means_no_limit_and_a_default_applies_to_keys_without_one() -> None:
    unlimited = RateLimiter(default_rate=None, clock=Clock())
    assert {unlimited.take(KEY, None) for _ in range(1000)} == {None}
    limited = RateLimiter(default_rate=1, clock=Clock())
    assert [limited.take(KEY, None), limited.take(KEY, None)] == [None, 1]


def test_a_batch_is_let_in_and_paid_off() -> None:
    clock = Clock()
    limiter = RateLimiter(default_rate=None, clock=clock)
    assert limiter.take(KEY, 10) is None
    limiter.charge(KEY, 10, 99)
    assert limiter.take(KEY, 10) == 10
    clock.now += 9.2
    assert limiter.take(KEY, 10) is None


def test_a_changed_rate_starts_afresh() -> None:
    limiter = RateLimiter(default_rate=None, clock=Clock())
    assert [limiter.take(KEY, 1), limiter.take(KEY, 1), limiter.take(KEY, 5)] == [None, 1, None]


@pytest.mark.parametrize("moved", [-10.0, 0.0])
def test_a_clock_that_goes_back_gives_nothing(moved: float) -> None:
    assert Bucket(10, 0.5, 100.0).refilled(100.0 + moved).tokens == 0.5


@given(st.integers(1, 1000), st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), max_size=50))
def test_never_more_than_the_rate_allows(rate: int, steps: list[tuple[float, int]]) -> None:
    """Over any span, what was let in (each as one) is at most one second's worth plus what was refilled."""
    bucket, taken, elapsed = Bucket.full(rate, 0.0), 0, 0.0
    for wait, tries in steps:
        elapsed += wait
        bucket = bucket.refilled(elapsed)
        for _ in range(tries):
            after = bucket.take(1)
            if after is not None:
                bucket, taken = after, taken + 1
        assert bucket.tokens <= rate
    assert taken <= rate + elapsed * rate + 1e-6
