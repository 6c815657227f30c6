"""Items a second through the batch endpoint, 500 at a time, against COPY and INSERT SELECT of the same rows."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError
from bench.http_load import post, run_load
from bench.ingest_stack import PARAMS, USERS, Stack, ingest_stack, item
from bench.scratch import RING
from shared.core.deduplication import request_fingerprint
from shared.core.identifier import new_id
from shared.core.sealing import Purpose, seal
from shared.wire.message import RequestHint, encode

BATCH: Final = 500
BATCHES: Final = 60
CONNECTIONS: Final = 4
PATH: Final = "/internal/v1/notifications/batch"

_runs = itertools.count(1)

_INTO: Final = (
    "CREATE TEMPORARY TABLE given (id uuid, application_id int, key text, hmac bytea, until timestamptz, "
    "user_id bigint, params bytea, payload bytea, moment timestamptz) ON COMMIT DELETE ROWS"
)
_INSERT: Final = """
WITH claimed AS (
    INSERT INTO ulak.notification_dedup (application_id, key, mapping, notification_id, request_hmac, until)
    SELECT application_id, key, 'ORDER_SHIPPED', id, hmac, until FROM given
    ON CONFLICT DO NOTHING RETURNING notification_id
), stored AS (
    INSERT INTO ulak.notifications (id, application_id, event_id, user_id, type, message_class, mode, state,
                                    params_sealed, expires_at, created_at)
    SELECT id, application_id, key, user_id, 'ORDER_SHIPPED', 1, 'live', 'ACCEPTED', params, until, moment
      FROM given WHERE id IN (SELECT notification_id FROM claimed)
)
INSERT INTO ulak.outbox (id, message_class, topic, key, payload, available_at)
SELECT id, 1, 'notification-requests-tx', convert_to(user_id::text, 'UTF8'), payload, moment
  FROM given WHERE id IN (SELECT notification_id FROM claimed)
"""


def _all_accepted(status: bytes, answer: bytes) -> None:
    results = orjson.loads(answer).get("results", [])
    if b" 200 " not in status or [result["status"] for result in results] != [202] * BATCH:
        raise WrongResultError(f"{status!r}: {answer[:200]!r}")


async def figure(stack: Stack) -> Sample:
    """Accept BATCHES of BATCH new notifications; all must be answered 202, stored, and reach Kafka."""
    run = f"batch{next(_runs)}"
    requests = iter(
        [
            post(PATH, stack.secret, orjson.dumps({"items": [item(run, first + n) for n in range(BATCH)]}))
            for first in range(0, BATCH * BATCHES, BATCH)
        ]
    )
    answered, seconds = await run_load(stack.port, requests, connections=CONNECTIONS, check=_all_accepted)
    stored = await stack.stored(run)
    if (answered, stored) != (BATCHES, BATCH * BATCHES):
        raise WrongResultError(f"{BATCHES} batches sent, {answered} answered, {stored} items stored")
    await stack.settled(run)
    return Sample(stored, seconds)


def _rows(run: str, first: int) -> list[tuple[Any, ...]]:
    """The same rows as ingest writes, made before the clock runs."""
    now = datetime.now(UTC)
    rows: list[tuple[Any, ...]] = []
    for number in range(first, first + BATCH):
        identifier = new_id()
        user = str(number % USERS)
        rows.append(
            (
                identifier,
                1,
                f"{run}-{number}",
                request_fingerprint(RING, recipient=user, type_name="ORDER_SHIPPED", params=PARAMS),
                now + timedelta(days=7),
                number % USERS + 1,
                seal(RING, Purpose.PARAMS, identifier.bytes, orjson.dumps(PARAMS)),
                encode(RequestHint(identifier))[0],
                now,
            )
        )
    return rows


async def limit(stack: Stack) -> Sample:
    """COPY into a temporary table and INSERT SELECT ON CONFLICT: one transaction a batch, one after the other."""
    run = f"copy{next(_runs)}"
    batches = [_rows(run, first) for first in range(0, BATCH * BATCHES, BATCH)]

    async with stack.pool.acquire() as connection:
        await connection.execute(_INTO)
        started = asyncio.get_running_loop().time()
        for rows in batches:
            async with connection.transaction():
                await connection.copy_records_to_table("given", records=rows)
                await connection.execute(_INSERT)
        seconds = asyncio.get_running_loop().time() - started
        await connection.execute("DROP TABLE given")
    stored = await stack.stored(run)
    if stored != BATCH * BATCHES:
        raise WrongResultError(f"{BATCH * BATCHES} copied, {stored} stored")
    await stack.pool.execute("TRUNCATE ulak.outbox")
    return Sample(stored, seconds)


@asynccontextmanager
async def opened(servers: Servers) -> AsyncIterator[Pair]:
    async with ingest_stack(servers) as stack:
        yield Pair(lambda: figure(stack), lambda: limit(stack), lambda: [stack.pid])


BENCH: Final = Bench("ingest-batch", "items/s", first=0.3, goal=0.7, open=opened)
