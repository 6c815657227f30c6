"""An import and orders that stand still hold up no login code, even in one process for all surfaces."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import orjson

from shared.core.sealing import KeyRing
from tests.integration.ingest.conftest import add_key, order, until
from tests.integration.ingest.process import process
from tests.integration.plain_http import plain_client

_LINES = 3_000
_ORDERS = 40


async def _lines() -> AsyncIterator[bytes]:
    for start in range(0, _LINES, 100):
        yield b"".join(
            orjson.dumps(
                {"userId": f"u{number}", "email": f"user{number}@example.com"}, option=orjson.OPT_APPEND_NEWLINE
            )
            for number in range(start, start + 100)
        )


async def test_codes_pass_an_import_and_orders_that_wait_for_the_same_table(
    database: str, pool: asyncpg.Pool, key_ring: KeyRing, catalogue: None, kafka_bootstrap: str, redis_url: str
) -> None:
    headers = {"authorization": f"Bearer {await add_key(pool)}"}
    async with (
        process(database, key_ring, kafka_bootstrap) as (_, url),
        plain_client(base_url=url, headers=headers, timeout=120) as client,
    ):
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("LOCK TABLE ulak.recipients IN ACCESS EXCLUSIVE MODE")
            importing = asyncio.create_task(
                client.post(
                    "/internal/v1/imports/recipients",
                    content=_lines(),
                    headers={"content-type": "application/x-ndjson"},
                )
            )
            ordering = [
                asyncio.create_task(client.post("/internal/v1/notifications", json=order(eventId=f"e-{number}")))
                for number in range(_ORDERS)
            ]

            async def both_wait() -> bool:
                waiting: int = await pool.fetchval(
                    "SELECT count(DISTINCT application_name) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
                return waiting >= 2

            await until(both_wait, seconds=60)
            for number in range(5):
                reply = await client.post(
                    "/internal/v1/otp-messages",
                    json={
                        "requestId": f"r-{number}",
                        "phone": f"+90532123456{number}",
                        "code": "482913",
                        "expiresInSeconds": 180,
                    },
                )
                assert reply.status_code == 202, reply.text
            assert not importing.done()
            assert not any(each.done() for each in ordering)
        assert (await importing).json()["accepted"] == _LINES
        assert {(await each).status_code for each in ordering} == {202}
    assert await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE message_class = 0") == 5
