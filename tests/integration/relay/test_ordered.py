"""Rows that ask for the order of their key, against a real PostgreSQL (O3)."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from typing import Any

import pytest

from services.relay.ordered import OrderedReader
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Record
from shared.postgres.pool import Pool
from tests.integration.relay.conftest import MakeOrderedReader, MakeReader
from tests.integration.relay.rows import add_outbox, count, outbox

pytestmark = pytest.mark.postgres

A, B = b"order-1", b"order-2"


async def add(pool: Pool, key: bytes, *payloads: bytes, **changed: Any) -> None:
    for payload in payloads:
        await add_outbox(pool, key=key, payload=payload, **{"ordered": True, **changed})


async def drain(reader: OrderedReader) -> None:
    while await reader.round():
        pass


def by_key(records: Sequence[Record]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for record in records:
        found[record.key or b""].append(record.value or b"")
    return dict(found)


class HeldProducer(InMemoryProducer):
    """Its acknowledgements come when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def publish(self, records: Sequence[Record]) -> None:
        self.asked.set()
        await self.let.wait()
        await super().publish(records)


class DistantProducer(InMemoryProducer):
    """Every other acknowledgement takes many round trips, so that other relays' transactions fall between."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self._pool = pool
        self._trips = cycle((1, 25))

    async def publish(self, records: Sequence[Record]) -> None:
        for _ in range(next(self._trips)):
            await self._pool.fetchval("SELECT 1")
        await super().publish(records)


async def test_each_key_s_rows_come_in_their_order_however_many(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    numbers = [str(number).encode() for number in range(45)]
    for number in numbers:
        await add(pool, A, number)
        await add(pool, B, number)

    await drain(make_ordered(broker))

    assert by_key(broker.records) == {A: numbers, B: numbers}
    assert await count(pool, "outbox") == 0


async def test_ordered_rows_are_not_taken_by_the_other_reader(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, make_ordered: MakeOrderedReader
) -> None:
    await add(pool, A, b"ordered")
    await add_outbox(pool, payload=b"free")

    await make_reader(broker).round()
    assert [record.value for record in broker.records] == [b"free"]
    await drain(make_ordered(broker))
    assert [record.value for record in broker.records] == [b"free", b"ordered"]


async def test_a_locked_row_makes_those_behind_it_wait_and_no_other_key_O3(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    await add(pool, A, b"1", b"2", b"3")
    await add(pool, B, b"1")
    async with pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM ulak.outbox WHERE key = $1 AND payload = '2' FOR UPDATE", A)
        await drain(make_ordered(broker))
        assert by_key(broker.records) == {A: [b"1"], B: [b"1"]}
    await drain(make_ordered(broker))

    assert by_key(broker.records) == {A: [b"1", b"2", b"3"], B: [b"1"]}


async def test_a_key_in_another_relay_s_hands_is_left_alone_O3(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    """Row 1 is with the first relay's broker, row 2 is committed and free: it waits all the same."""
    slow = HeldProducer()
    await add(pool, A, b"1")
    first = asyncio.create_task(drain(make_ordered(slow)))
    await slow.asked.wait()
    await add(pool, A, b"2")

    await drain(make_ordered(broker))
    assert broker.records == []

    slow.let.set()
    await first
    assert by_key(slow.records)[A][0] == b"1"
    await drain(make_ordered(broker))
    assert by_key(slow.records + broker.records) == {A: [b"1", b"2"]}


async def test_four_relays_keep_every_key_s_order_while_rows_keep_coming_O3(
    pool: Pool, make_ordered: MakeOrderedReader
) -> None:
    """20 keys of 30 rows: whichever relay publishes, in whatever transactions, each key's rows come once, in order."""
    broker = DistantProducer(pool)
    keys = [f"order-{number}".encode() for number in range(20)]

    async def produce() -> None:
        for number in range(30):
            await pool.execute(
                "INSERT INTO ulak.outbox (topic, key, payload, ordered) "
                "SELECT 'orders', key, $2, true FROM unnest($1::bytea[]) AS key",
                keys,
                str(number).encode(),
            )
            while len(broker.records) < number * len(keys) // 2:  # no further ahead: the relays meet on the same keys
                await count(pool, "outbox")

    producing = asyncio.create_task(produce())

    async def relay() -> None:
        reader = make_ordered(broker)
        while not producing.done() or await count(pool, "outbox"):
            await drain(reader)

    await asyncio.gather(*(relay() for _ in range(4)), producing)

    assert by_key(broker.records) == {key: [str(number).encode() for number in range(30)] for key in keys}


async def test_what_is_not_acknowledged_goes_back_with_what_is_behind_it(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    """The broker has lost one of the two topics; row 3 was acknowledged, and comes again after row 2."""
    await add(pool, A, b"1")
    await add(pool, A, b"2", topic="domain-events")
    await add(pool, A, b"3")
    await add(pool, B, b"1")

    with pytest.raises(PublishError):
        await drain(make_ordered(broker))
    assert [row["payload"] for row in sorted(await outbox(pool), key=lambda row: row["sequence"])] == [b"2", b"3"]

    whole = InMemoryProducer()
    await drain(make_ordered(whole))
    assert by_key(whole.records) == {A: [b"2", b"3"]}


async def test_a_refused_row_is_set_aside_and_those_behind_it_flow_K15(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    await add(pool, A, b"1")
    await add(pool, A, b"x" * 1_200_000)
    await add(pool, A, b"3")

    await drain(make_ordered(broker))
    await add(pool, A, b"4")
    await drain(make_ordered(broker))

    assert by_key(broker.records) == {A: [b"1", b"3", b"4"]}
    (left,) = await outbox(pool)
    assert left["ordered"]
    assert left["available_at"].year == 9999
    assert left["error"].startswith("oversized: 1200000 bytes")


async def test_a_row_of_later_makes_those_behind_it_wait(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    await add(pool, A, b"1", available_at=datetime.now(UTC) + timedelta(hours=1))
    await add(pool, A, b"2")

    await drain(make_ordered(broker))

    assert broker.records == []


async def test_thousands_of_rows_that_wait_hold_no_other_key(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    """All due at the same moment, and first in every order there is."""
    await add(pool, A, b"later", available_at=datetime.now(UTC) + timedelta(hours=1))
    await pool.execute(
        "INSERT INTO ulak.outbox (topic, key, payload, ordered, available_at) "
        "SELECT 'orders', $1, 'waits', true, now() - interval '1 hour' FROM generate_series(1, 3000)",
        A,
    )
    await add(pool, B, b"1")

    await drain(make_ordered(broker, full_scan_sec=600.0))

    assert by_key(broker.records) == {B: [b"1"]}


async def test_between_two_walks_the_keys_of_new_rows_are_looked_at(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    reader = make_ordered(broker, full_scan_sec=600.0)
    await drain(reader)
    await add(pool, A, b"new", available_at=datetime.now(UTC))
    await add(pool, B, b"late", available_at=datetime.now(UTC) - timedelta(hours=1))

    await drain(reader)

    assert by_key(broker.records) == {A: [b"new"]}
    await drain(make_ordered(broker))
    assert by_key(broker.records) == {A: [b"new"], B: [b"late"]}


async def test_a_row_that_commits_late_is_published_O1(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    reader = make_ordered(broker)
    async with pool.acquire() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("INSERT INTO ulak.outbox (topic, key, payload, ordered) VALUES ('orders', $1, 'A', true)", A)
        await add(pool, B, b"B")
        await drain(reader)
        assert by_key(broker.records) == {B: [b"B"]}
        await transaction.commit()
    await drain(reader)

    assert by_key(broker.records) == {A: [b"A"], B: [b"B"]}
