"""Signals reach the process where the user's app listens; whatever Redis does, a listener looks too often at most."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from shared.redis_store.inbox_signal import InboxSignals, receiving, signal_inbox
from tests.integration.redis_store.conftest import until

pytestmark = pytest.mark.redis


def signals(redis: Redis, prefix: str) -> InboxSignals:
    return InboxSignals(redis, prefix, retry_sec=0.05)


async def woken(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await event.wait()
    event.clear()


async def subscribers(redis: Redis, prefix: str, user_id: int) -> int:
    ((_, count),) = await redis.pubsub_numsub(f"{prefix}inbox:{user_id}")
    return int(count)


def subscribed(redis: Redis, prefix: str, processes: int) -> Callable[[], Awaitable[bool]]:
    """Whether so many processes listen for user 7."""

    async def holds() -> bool:
        return await subscribers(redis, prefix, 7) == processes

    return holds


async def test_a_signal_wakes_that_users_listeners_in_every_process(redis_client: Redis, key_prefix: str) -> None:
    here, there = signals(redis_client, key_prefix), signals(redis_client, key_prefix)
    async with receiving(here), receiving(there):  # noqa: SIM117  the listeners go before what wakes them
        async with here.listen(7) as phone, here.listen(7) as tablet, there.listen(7) as desk, there.listen(8) as other:
            await until(subscribed(redis_client, key_prefix, 2), "both processes listen")
            for event in (phone, tablet, desk, other):
                event.clear()

            await signal_inbox(redis_client, key_prefix, [7])

            for event in (phone, tablet, desk):
                await woken(event)
            assert not other.is_set()


async def test_who_listens_no_more_is_not_told(redis_client: Redis, key_prefix: str) -> None:
    one = signals(redis_client, key_prefix)
    async with receiving(one):
        async with one.listen(7):
            async with one.listen(7):
                await until(subscribed(redis_client, key_prefix, 1), "subscribed once")
            assert await subscribers(redis_client, key_prefix, 7) == 1, "the other one still listens"
        await until(subscribed(redis_client, key_prefix, 0), "unsubscribed")


async def test_what_may_have_been_missed_wakes_all(redis_client: Redis, key_prefix: str) -> None:
    one = signals(redis_client, key_prefix)
    async with receiving(one), one.listen(7) as event:
        await until(subscribed(redis_client, key_prefix, 1), "subscribed")
        event.clear()

        await redis_client.client_kill_filter(_type="pubsub")

        await woken(event)
        await until(subscribed(redis_client, key_prefix, 1), "subscribed anew")
        event.clear()
        await signal_inbox(redis_client, key_prefix, [7])
        await woken(event)


async def test_without_redis_nobody_fails(key_prefix: str) -> None:
    nowhere = Redis.from_url("redis://127.0.0.1:1/0")
    await signal_inbox(nowhere, key_prefix, [7])
    await signal_inbox(None, key_prefix, [7])
    async with receiving(signals(nowhere, key_prefix)) as _, signals(nowhere, key_prefix).listen(7) as event:
        assert not event.is_set()
    await nowhere.aclose()
