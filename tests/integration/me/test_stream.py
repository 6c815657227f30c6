"""Server-sent events: by a ticket of one use, across replicas, complete over reconnects, and never past the token."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import orjson
import pytest
from redis.asyncio import Redis

from shared.core.sealing import KeyRing
from shared.redis_store.inbox_signal import signal_inbox
from tests.integration.me.conftest import Me, running, settings_of, token
from tests.integration.me.inbox import LIST, notify, public, user_id
from tests.integration.plain_http import plain_client

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

TICKETS, STREAM = "/api/v1/me/stream-tickets", "/api/v1/me/stream"


@dataclass
class Reading:
    """A stream as a browser reads it."""

    response: httpx.Response
    events: "asyncio.Queue[tuple[str, Any]]" = field(default_factory=asyncio.Queue)
    last_id: str | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        name, identifier = "", None
        async for line in self.response.aiter_lines():
            key, _, value = line.partition(": ")
            match key:
                case "event":
                    name = value
                case "id":
                    identifier = value
                case "data":
                    self.last_id = identifier or self.last_id
                    self.events.put_nowait((name, orjson.loads(value)))
                    identifier = None
        self.ended.set()

    async def next(self) -> tuple[str, Any]:
        async with asyncio.timeout(60):
            name, body = await self.events.get()
        return name, body["title"] if name == "notification" else body["unread"]


async def ticket(me: Me, user: str = "7", **changes: Any) -> str:
    answer = await me.client.post(TICKETS, headers={"authorization": f"Bearer {token(user, **changes)}"})
    text: str = answer.json()["ticket"]
    return text


@asynccontextmanager
async def reading(me: Me, text: str, last_id: str | None = None) -> AsyncIterator[Reading]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    async with me.client.stream("GET", f"{STREAM}?ticket={text}", headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        found = Reading(response)
        task = asyncio.create_task(found.read())
        try:
            yield found
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def signal(redis_client: Redis, key_prefix: str, me: Me) -> Any:
    async def tell(user: str = "7") -> None:
        await signal_inbox(redis_client, key_prefix, [await user_id(me.pool, user)])

    return tell


async def test_news_come_as_they_are_written(me: Me, key_ring: KeyRing, signal: Any) -> None:
    await notify(me.pool, key_ring, "old")
    async with reading(me, await ticket(me)) as stream:
        assert await stream.next() == ("unread", 1)

        id_ = await notify(me.pool, key_ring, "new")
        await notify(me.pool, key_ring, "theirs", user="8")
        await signal()

        assert await stream.next() == ("notification", "new")
        assert await stream.next() == ("unread", 2)
        await me.post(f"{LIST}/{public(id_)}/read", None)
        assert await stream.next() == ("unread", 1), "read on another device"


async def test_what_a_lost_connection_missed_comes_with_the_next_one(me: Me, key_ring: KeyRing, signal: Any) -> None:
    await notify(me.pool, key_ring, "before", ago=timedelta(minutes=2))
    async with reading(me, await ticket(me)) as stream:
        await stream.next()
        await notify(me.pool, key_ring, "told")
        await signal()
        assert await stream.next() == ("notification", "told")
        last = stream.last_id
    for title in ("missed", "missed too"):
        await notify(me.pool, key_ring, title)

    async with reading(me, await ticket(me), last) as stream:
        assert [await stream.next() for _ in range(3)] == [
            ("notification", "missed"),
            ("notification", "missed too"),
            ("unread", 4),
        ]


async def test_a_decision_that_commits_late_is_told_as_well(me: Me, key_ring: KeyRing, signal: Any) -> None:
    """Its time lies before that of the entry which is the last one told (O1's kind of fault)."""
    await user_id(me.pool)
    async with reading(me, await ticket(me)) as stream:
        assert await stream.next() == ("unread", 0)
        await notify(me.pool, key_ring, "quick")
        await signal()
        assert await stream.next() == ("notification", "quick")
        assert await stream.next() == ("unread", 1)

        await notify(me.pool, key_ring, "slow", ago=timedelta(seconds=3))
        await signal()

        assert await stream.next() == ("notification", "slow")
        assert await stream.next() == ("unread", 2)


async def test_a_ticket_opens_one_stream_and_none_of_anothers(me: Me, key_ring: KeyRing) -> None:
    await notify(me.pool, key_ring, "theirs", user="8")
    await user_id(me.pool, "7")
    text = await ticket(me)
    async with reading(me, text) as stream:
        assert await stream.next() == ("unread", 0), "the ticket is user 7's"
        again = await me.client.get(f"{STREAM}?ticket={text}")
        assert (again.status_code, again.json()["code"]) == (403, "invalid_ticket")


async def test_without_a_token_there_is_no_ticket(me: Me) -> None:
    assert (await me.client.post(TICKETS)).status_code == 401
    assert (await me.client.get(f"{STREAM}?ticket=made-up")).status_code == 403
    assert (await me.client.get(STREAM)).status_code == 422


async def test_it_ends_with_the_tokens_life(me: Me, key_ring: KeyRing) -> None:
    await notify(me.pool, key_ring, "old")
    async with reading(me, await ticket(me, exp=int(time.time()) + 2)) as stream:
        assert await stream.next() == ("unread", 1)
        async with asyncio.timeout(60):
            await stream.ended.wait()


async def test_a_user_has_so_many_streams_and_no_more(me: Me, key_ring: KeyRing) -> None:
    await notify(me.pool, key_ring, "old")
    streams = [reading(me, await ticket(me)) for _ in range(5)]
    opened = [await stream.__aenter__() for stream in streams]
    for stream in opened:
        assert await stream.next() == ("unread", 1)

    refused = await me.client.get(f"{STREAM}?ticket={await ticket(me)}")

    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
    for each in streams:
        await each.__aexit__(None, None, None)


async def test_it_ends_when_the_service_stops_and_goes_on_at_another_replica(
    database: str, redis_url: str, key_prefix: str, me: Me, key_ring: KeyRing, signal: Any
) -> None:
    await notify(me.pool, key_ring, "old", ago=timedelta(minutes=1))
    other = settings_of(database, redis_url, key_prefix)
    async with running(other, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        there = Me(url, "", me.pool, client)
        async with reading(there, await ticket(me)) as stream:  # issued here, shown there
            assert await stream.next() == ("unread", 1)
            await notify(me.pool, key_ring, "told")
            await signal()
            assert await stream.next() == ("notification", "told")
            last = stream.last_id
    await notify(me.pool, key_ring, "meanwhile")
    async with reading(me, await ticket(me), last) as stream:
        assert await stream.next() == ("notification", "meanwhile")
