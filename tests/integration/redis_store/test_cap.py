"""The frequency cap on a real server: exact under concurrency and redelivery, and after whatever was lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.redis_store.cap import SETTLE, Ask, Day, FrequencyCaps, Lost, Unsettled
from shared.redis_store.client import open_redis
from shared.redis_store.settings import RedisSettings

pytestmark = pytest.mark.redis

MIDNIGHT = datetime.now(UTC) - timedelta(hours=3)
"""Somewhere it was midnight three hours ago."""


def day(user: int = 7, *, ago: int = 0, channel: str = "PUSH") -> Day:
    begins = MIDNIGHT - timedelta(days=ago)
    return Day(user, "MARKETING", channel, begins.date(), begins, begins + timedelta(days=1))


def member() -> bytes:
    return uuid4().bytes


async def keep_since(redis: Redis, key_prefix: str, ago: timedelta) -> None:
    """As if Redis had kept its keys for so long."""
    since = int((time.time() - ago.total_seconds()) * 1000)
    await redis.set(f"{key_prefix}cap:epoch", since)


@pytest.fixture
async def caps(redis_client: Redis, key_prefix: str) -> AsyncIterator[FrequencyCaps]:
    await keep_since(redis_client, key_prefix, timedelta(days=3))
    yield FrequencyCaps(redis_client, key_prefix)
    await wipe(redis_client, key_prefix)


async def wipe(redis: Redis, key_prefix: str) -> None:
    async for key in redis.scan_iter(match=f"{key_prefix}*"):
        await redis.delete(key)


async def allowed(caps: FrequencyCaps, of: Day, *members: bytes, limit: int = 3) -> tuple[bool, ...]:
    answer = await caps.reserve({of: Ask(limit, members)})
    assert isinstance(answer, dict)
    return answer[of]


async def test_of_hundred_at_once_exactly_three_go(caps: FrequencyCaps, redis_client: Redis, key_prefix: str) -> None:
    routers = [caps, *(FrequencyCaps(redis_client, key_prefix) for _ in range(3))]
    answers = await asyncio.gather(*(allowed(routers[number % 4], day(), member()) for number in range(100)))
    assert sum(granted for (granted,) in answers) == 3


async def test_a_redelivered_notification_counts_once_and_gets_its_answer_again(caps: FrequencyCaps) -> None:
    first, second, third, fourth = member(), member(), member(), member()
    assert await allowed(caps, day(), first, first, second) == (True, True, True)
    assert await allowed(caps, day(), first, second, third, fourth) == (True, True, True, False)
    assert await allowed(caps, day(), fourth, third) == (False, True)


async def test_users_channels_and_days_are_counted_apart_T5(caps: FrequencyCaps) -> None:
    for of in (day(7), day(8), day(7, ago=1), day(7, channel="EMAIL")):
        assert await allowed(caps, of, member(), member(), limit=1) == (True, False)


async def test_many_users_in_one_round_trip_each_with_their_own_limit(caps: FrequencyCaps) -> None:
    asked = {day(user): Ask(user % 3, [member() for _ in range(4)]) for user in range(500)}
    answer = await caps.reserve(asked)
    assert isinstance(answer, dict)
    assert [sum(granted) for granted in answer.values()] == [user % 3 for user in range(500)]


async def test_a_refused_one_may_go_once_another_was_released(caps: FrequencyCaps) -> None:
    first, second = member(), member()
    assert await allowed(caps, day(), first, second, limit=1) == (True, False)
    await caps.release({day(): [first]})
    assert await allowed(caps, day(), second, limit=1) == (True,)


async def test_forgotten_scripts_are_brought_along_R3(caps: FrequencyCaps, redis_client: Redis) -> None:
    assert await allowed(caps, day(), member()) == (True,)
    await redis_client.script_flush()
    assert await allowed(caps, day(), member(), member(), member()) == (True, True, False)


async def test_an_emptied_redis_lets_nothing_through_until_it_has_settled(
    caps: FrequencyCaps, redis_client: Redis, key_prefix: str
) -> None:
    assert await allowed(caps, day(), member(), limit=1) == (True,)
    await wipe(redis_client, key_prefix)
    before = datetime.now(UTC)
    answer = await caps.reserve({day(): Ask(1, [member()])})
    assert isinstance(answer, Unsettled)
    assert before <= answer.until <= datetime.now(UTC) + SETTLE


async def test_what_was_lost_is_brought_back_from_postgres_before_anything_goes(
    caps: FrequencyCaps, redis_client: Redis, key_prefix: str
) -> None:
    first, second, third = member(), member(), member()
    assert await allowed(caps, day(), first, second, limit=2) == (True, True)
    await wipe(redis_client, key_prefix)
    await keep_since(redis_client, key_prefix, SETTLE * 2)
    # This one has not heard of the loss yet: what it still believes to be whole is another life's key.
    asked = {day(): Ask(2, [third])}
    assert await caps.reserve(asked) == Lost(frozenset({day()}))
    assert await caps.reserve(asked, {day(): [first, second]}) == {day(): (False,)}
    assert await allowed(caps, day(), third, second, limit=2) == (False, True), "it is there again"


async def test_a_day_nothing_was_counted_in_is_known_to_be_empty_from_then_on(
    caps: FrequencyCaps, redis_client: Redis, key_prefix: str
) -> None:
    await keep_since(redis_client, key_prefix, SETTLE * 2)
    asked = {day(ago=1): Ask(1, [member(), member()])}
    assert isinstance(await caps.reserve(asked), Lost)
    assert await caps.reserve(asked, {day(ago=1): []}) == {day(ago=1): (True, False)}


async def test_a_day_that_began_after_the_loss_needs_no_looking_back(redis_client: Redis, key_prefix: str) -> None:
    await keep_since(redis_client, key_prefix, timedelta(hours=2))
    begins = datetime.now(UTC) - timedelta(hours=1)
    today = Day(7, "MARKETING", "PUSH", begins.date(), begins, begins + timedelta(days=1))
    assert await allowed(FrequencyCaps(redis_client, key_prefix), today, member()) == (True,)
    await wipe(redis_client, key_prefix)


async def test_sets_outlive_their_day_by_an_hour(caps: FrequencyCaps, redis_client: Redis, key_prefix: str) -> None:
    await allowed(caps, day(), member())
    (key,) = [key async for key in redis_client.scan_iter(match=f"{key_prefix}cap:{{7}}*")]
    assert await redis_client.pexpiretime(key) == int((day().ends + timedelta(hours=1)).timestamp() * 1000)


async def test_a_redis_that_does_not_answer_is_said_so(key_prefix: str) -> None:
    settings = RedisSettings(url="redis://127.0.0.1:1/0", key_prefix=key_prefix, timeout_sec=0.2)
    async with open_redis(settings) as client:
        with pytest.raises(RedisError):
            await FrequencyCaps(client, key_prefix).reserve({day(): Ask(3, [member()])})
