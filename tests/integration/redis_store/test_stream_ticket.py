"""A ticket opens one stream, once, soon, on whichever replica it is shown."""

import asyncio

import pytest
from redis.asyncio import Redis

from shared.redis_store.stream_ticket import TICKET_TTL_SEC, StreamTickets, Ticket

pytestmark = pytest.mark.redis

AYSE = Ticket("7", 1_800_000_000.5)


async def test_it_is_good_once_on_any_replica(redis_client: Redis, key_prefix: str) -> None:
    text = await StreamTickets(redis_client, key_prefix).issue(AYSE)

    answers = await asyncio.gather(*(StreamTickets(redis_client, key_prefix).redeem(text) for _ in range(10)))

    assert sorted(answers, key=lambda answer: answer is None) == [AYSE, *[None] * 9]


async def test_it_is_good_for_seconds(redis_client: Redis, key_prefix: str) -> None:
    await StreamTickets(redis_client, key_prefix).issue(AYSE)
    (key,) = await redis_client.keys(f"{key_prefix}*")
    assert 0 < await redis_client.ttl(key) <= TICKET_TTL_SEC


async def test_the_store_holds_no_ticket(redis_client: Redis, key_prefix: str) -> None:
    text = await StreamTickets(redis_client, key_prefix).issue(AYSE)
    (key,) = await redis_client.keys(f"{key_prefix}*")
    assert text.encode() not in key


async def test_what_nobody_issued_opens_nothing(redis_client: Redis, key_prefix: str) -> None:
    assert await StreamTickets(redis_client, key_prefix).redeem("made-up") is None
