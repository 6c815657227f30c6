"""Waiting for tokens: patience, drains, accounts without a quota. The buckets are a fake."""

from collections.abc import Sequence

import pytest

from shared.redis_store.pacer import LocalBucket, Pacer
from shared.redis_store.token_bucket import Grant, Quota


class Buckets:
    def __init__(self, answers: Sequence[Grant]) -> None:
        self.answers = list(answers)
        self.refunded: list[int] = []
        self.drained: list[float] = []

    async def take(self, quota: Quota, wanted: int, *, critical: bool) -> Grant:
        return self.answers.pop(0)

    async def refund(self, quota: Quota, count: int, *, critical: bool) -> None:
        self.refunded.append(count)

    async def drain(self, account: str, seconds: float, *, critical: bool) -> None:
        self.drained.append(seconds)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def pacer(answers: Sequence[Grant], clock: Clock) -> tuple[Pacer, Buckets]:
    buckets = Buckets(answers)
    made = Pacer(
        buckets,  # type: ignore[arg-type]  # a fake with the three methods used
        {"twilio": Quota("twilio", 500.0, 150.0)},
        workers=1,
        retry_sec=1.0,
        clock=clock,
        sleep=clock.sleep,
    )
    return made, buckets


async def test_what_is_there_is_taken() -> None:
    made, _ = pacer([Grant(7, 0.0)], Clock())
    assert await made.take("twilio", 10, critical=False, patience_sec=2.0) == 7


async def test_short_wait_is_waited() -> None:
    clock = Clock()
    made, _ = pacer([Grant(0, 0.2), Grant(3, 0.0)], clock)
    assert await made.take("twilio", 10, critical=False, patience_sec=2.0) == 3
    assert clock.now == pytest.approx(0.2)


async def test_long_wait_is_told_at_once() -> None:
    clock = Clock()
    made, _ = pacer([Grant(0, 30.0)], clock)
    assert await made.take("twilio", 10, critical=False, patience_sec=2.0) == 0
    assert clock.now == 0.0


async def test_others_taking_first_does_not_make_the_wait_endless() -> None:
    clock = Clock()
    made, _ = pacer([Grant(0, 0.2)] * 100, clock)
    assert await made.take("twilio", 1, critical=False, patience_sec=2.0) == 0
    assert clock.now <= 2.0


async def test_account_without_a_quota_waits_only_after_a_throttle() -> None:
    clock = Clock()
    made, buckets = pacer([], clock)
    assert await made.take("apns", 1000, critical=False, patience_sec=2.0) == 1000
    await made.drain("apns", 10.0, critical=False)
    assert await made.take("apns", 1000, critical=False, patience_sec=2.0) == 0
    assert await made.take("apns", 1000, critical=True, patience_sec=2.0) == 1000
    clock.now = 10.0
    assert await made.take("apns", 1000, critical=False, patience_sec=2.0) == 1000
    assert buckets.drained == []


async def test_throttle_met_by_the_critical_class_stops_it_too() -> None:
    made, buckets = pacer([], Clock())
    await made.drain("twilio", 10.0, critical=True)
    assert await made.take("twilio", 1, critical=True, patience_sec=2.0) == 0
    assert await made.take("twilio", 1, critical=False, patience_sec=2.0) == 0
    assert buckets.drained == [10.0]


async def test_refund_of_nothing_asks_nobody() -> None:
    made, buckets = pacer([], Clock())
    await made.refund("twilio", 0, critical=False)
    await made.refund("apns", 5, critical=False)
    await made.refund("twilio", 5, critical=False)
    assert buckets.refunded == [5]


async def test_without_redis_each_process_uses_its_share_of_the_quota() -> None:
    clock = Clock()
    made = Pacer(None, {"smtp": Quota("smtp", 100.0)}, workers=2, retry_sec=1.0, clock=clock, sleep=clock.sleep)
    granted = 0
    while clock.now < 10.0:
        granted += await made.take("smtp", 50, critical=False, patience_sec=2.0)
    assert 490 <= granted <= 505, "50 a second, for ten seconds"
    await made.refund("smtp", 5, critical=False)
    await made.drain("smtp", 30.0, critical=False)
    assert await made.take("smtp", 1, critical=False, patience_sec=2.0) == 0


def test_local_bucket_never_passes_its_share() -> None:
    bucket = LocalBucket(Quota("twilio", 500.0, 150.0).share(5))
    granted = sum(bucket.take(100, now / 100, critical=True).granted for now in range(1001))
    assert 990 <= granted <= 1000


@pytest.mark.parametrize("reserve", [-1.0, 500.0, 600.0])
def test_reserve_must_be_below_the_quota(reserve: float) -> None:
    with pytest.raises(ValueError, match="reserve"):
        Quota("twilio", 500.0, reserve)
