"""The bucket on a real server: server time, bounds, reserve, scripts that were forgotten."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from shared.redis_store.client import open_redis
from shared.redis_store.pacer import Pacer
from shared.redis_store.settings import RedisSettings
from shared.redis_store.token_bucket import BURST_SEC, Quota, TokenBuckets

pytestmark = pytest.mark.redis


@pytest.fixture
async def buckets(redis_client: Redis, key_prefix: str) -> AsyncIterator[TokenBuckets]:
    yield TokenBuckets(redis_client, key_prefix)
    async for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        await redis_client.delete(key)


async def filled(buckets: TokenBuckets, quota: Quota) -> None:
    """The bucket at its capacity."""
    await buckets.refund(quota, 1_000_000, critical=True)


async def test_hundred_takers_get_ten_tokens_R1(buckets: TokenBuckets) -> None:
    full = Quota("acc", per_second=10 / BURST_SEC)
    assert full.capacity == 10
    await filled(buckets, full)
    started = time.monotonic()
    grants = await asyncio.gather(*(buckets.take(full, 1, critical=True) for _ in range(100)))
    refilled = (time.monotonic() - started) * full.per_second
    assert 10 <= sum(grant.granted for grant in grants) <= 10 + refilled


async def test_new_bucket_starts_empty(buckets: TokenBuckets) -> None:
    grant = await buckets.take(Quota("acc", 100.0), 10, critical=True)
    assert grant.granted == 0
    assert 0 < grant.wait_sec <= 0.02


async def test_batch_takes_up_to_what_is_there_and_gives_back_up_to_capacity_R1(buckets: TokenBuckets) -> None:
    quota = Quota("acc", 100.0)
    await filled(buckets, quota)
    assert (await buckets.take(quota, 1000, critical=True)).granted == 10
    await buckets.refund(quota, 4, critical=True)
    assert 4 <= (await buckets.take(quota, 1000, critical=True)).granted <= 5
    await filled(buckets, quota)
    assert (await buckets.take(quota, 1000, critical=True)).granted == 10


@pytest.mark.parametrize("wanted", [0, -1])
async def test_nonsense_is_refused_R1(buckets: TokenBuckets, wanted: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        await buckets.take(Quota("acc", 100.0), wanted, critical=True)
    with pytest.raises(ValueError, match="given back"):
        await buckets.refund(Quota("acc", 100.0), -1, critical=True)


async def test_reserve_is_for_the_critical_class_alone(buckets: TokenBuckets) -> None:
    quota = Quota("acc", 500.0, 150.0)
    await filled(buckets, quota)
    assert (await buckets.take(quota, 1000, critical=False)).granted == 35
    assert 15 <= (await buckets.take(quota, 1000, critical=True)).granted <= 17


async def test_reserve_leaves_room_even_in_a_small_quota(buckets: TokenBuckets) -> None:
    quota = Quota("acc", 2.0, 1.0)
    await filled(buckets, quota)
    assert (await buckets.take(quota, 5, critical=False)).granted == 1


async def test_fifty_takers_get_no_more_than_the_rate(buckets: TokenBuckets) -> None:
    quota = Quota("acc", 400.0)
    await buckets.take(quota, 1, critical=True)
    started = time.monotonic()
    granted = 0

    async def taker() -> None:
        nonlocal granted
        while time.monotonic() - started < 1.0:
            grant = await buckets.take(quota, 5, critical=True)
            granted += grant.granted
            await asyncio.sleep(grant.wait_sec)

    await asyncio.gather(*(taker() for _ in range(50)))
    elapsed = time.monotonic() - started
    assert granted <= 400 * elapsed + quota.capacity + 1
    assert granted > quota.capacity  # it was filled again meanwhile; how closely is for a bench, on a quiet machine


async def test_drain_stops_everybody_but_the_critical_class(buckets: TokenBuckets) -> None:
    quota = Quota("acc", 1000.0)
    await filled(buckets, quota)
    await buckets.drain("acc", 30.0, critical=False)
    stopped = await buckets.take(quota, 1, critical=False)
    assert stopped.granted == 0
    assert 29 < stopped.wait_sec <= 30
    assert (await buckets.take(quota, 1, critical=True)).granted == 1
    await buckets.drain("acc", 60.0, critical=True)
    assert (await buckets.take(quota, 1, critical=True)).granted == 0


async def test_drain_is_never_shortened(buckets: TokenBuckets) -> None:
    await buckets.drain("acc", 30.0, critical=False)
    await buckets.drain("acc", 1.0, critical=False)
    assert (await buckets.take(Quota("acc", 10.0), 1, critical=False)).wait_sec > 25


async def test_forgotten_script_is_loaded_again_R3(buckets: TokenBuckets, redis_client: Redis) -> None:
    quota = Quota("acc", 100.0)
    await filled(buckets, quota)
    await redis_client.script_flush()
    assert (await buckets.take(quota, 3, critical=True)).granted == 3
    await redis_client.script_flush()
    await buckets.check()


async def test_emptied_redis_grants_nothing_twice(buckets: TokenBuckets, redis_client: Redis, key_prefix: str) -> None:
    quota = Quota("acc", 10.0)
    await filled(buckets, quota)
    async for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        await redis_client.delete(key)
    assert (await buckets.take(quota, 1, critical=True)).granted == 0


async def test_unreachable_redis_leaves_each_worker_its_share() -> None:
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    settings = RedisSettings(url="redis://127.0.0.1:1/0", timeout_sec=0.2)
    async with open_redis(settings) as client:
        pacer = Pacer(
            TokenBuckets(client, "x:"),
            {"acc": Quota("acc", 100.0)},
            workers=4,
            retry_sec=1000.0,
            clock=lambda: now[0],
            sleep=sleep,
        )
        taken = 0
        while now[0] < 10.0:
            taken += await pacer.take("acc", 1, critical=False, patience_sec=2.0)
    assert 245 <= taken <= 255
