"""The same idempotency key is the same intent, also for two transactions at once."""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest
from ulak_client import Email, Event, enqueue_email_async, enqueue_event_async

pytestmark = pytest.mark.postgres

Enqueue = Callable[[asyncpg.Connection], Awaitable[str | UUID]]


def event(number: int) -> Enqueue:
    fact = Event(id=f"event-{number}", source="/shop", type="OrderShipped", data={})
    return lambda connection: enqueue_event_async(connection, fact, idempotency_key="order 1 shipped")


def email(number: int) -> Enqueue:
    mail = Email(to=["ayse@example.com"], template=f"TEMPLATE_{number}")
    return lambda connection: enqueue_email_async(connection, mail, idempotency_key="order 1 shipped")


def plain_event(number: int) -> Enqueue:
    return lambda connection: connection.fetchval(
        "SELECT ulak.enqueue_event('/shop', 'OrderShipped', '{}', $1, idempotency_key => 'order 1 shipped')",
        f"event-{number}",
    )


def plain_email(number: int) -> Enqueue:
    return lambda connection: connection.fetchval(
        "SELECT ulak.enqueue_email(ARRAY['ayse@example.com'], $1, idempotency_key => 'order 1 shipped')",
        f"TEMPLATE_{number}",
    )


BOTH = pytest.mark.parametrize(
    "enqueue", [event, email, plain_event, plain_email], ids=["event", "email", "plain_event", "plain_email"]
)
_COUNT = "SELECT (SELECT count(*) FROM ulak.outbox) + (SELECT count(*) FROM ulak.email_messages)"


@BOTH
async def test_a_repetition_returns_the_first_id_and_adds_nothing(
    enqueue: Callable[[int], Enqueue], service_database: str
) -> None:
    connection = await asyncpg.connect(service_database)
    async with connection.transaction():
        first = await enqueue(1)(connection)
        assert await enqueue(2)(connection) == first
    async with connection.transaction():
        assert await enqueue(3)(connection) == first
    assert await connection.fetchval(_COUNT) == 1
    await connection.close()


@BOTH
@pytest.mark.parametrize("first_commits", [True, False])
async def test_the_second_of_two_transactions_waits_for_the_first(
    first_commits: bool, enqueue: Callable[[int], Enqueue], service_database: str
) -> None:
    first, second, onlooker = [await asyncpg.connect(service_database) for _ in range(3)]
    holding, waiting = first.transaction(), second.transaction()
    await holding.start()
    await waiting.start()
    first_id = await enqueue(1)(first)
    second_answer = asyncio.ensure_future(enqueue(2)(second))
    await _until_blocked(onlooker, second.get_server_pid())
    await (holding.commit() if first_commits else holding.rollback())
    second_id = await second_answer
    await waiting.commit()
    assert (second_id == first_id) is first_commits
    assert await onlooker.fetchval(_COUNT) == 1
    for connection in (first, second, onlooker):
        await connection.close()


@BOTH
async def test_a_snapshot_from_before_the_first_is_refused_and_not_answered_with_nothing(
    enqueue: Callable[[int], Enqueue], service_database: str
) -> None:
    """In REPEATABLE READ the second cannot see the first's row: a serialization failure, which such callers repeat."""
    first, second = [await asyncpg.connect(service_database) for _ in range(2)]
    transaction = second.transaction(isolation="repeatable_read")
    await transaction.start()
    await second.fetchval("SELECT 1")  # the snapshot is taken
    first_id = await _committed(first, enqueue(1))
    with pytest.raises(asyncpg.SerializationError):
        await enqueue(2)(second)
    await transaction.rollback()
    assert await _committed(second, enqueue(2)) == first_id
    for connection in (first, second):
        await connection.close()


async def _committed(connection: asyncpg.Connection, enqueue: Enqueue) -> str | UUID:
    async with connection.transaction():
        return await enqueue(connection)


async def _until_blocked(onlooker: asyncpg.Connection, pid: int) -> None:
    """Returns when that server process waits for another's transaction."""
    async with asyncio.timeout(60):
        while not await onlooker.fetchval("SELECT pg_blocking_pids($1) <> '{}' FROM pg_sleep(0.02)", pid):
            pass
