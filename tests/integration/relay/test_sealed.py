"""Sealed events: opened right before they are published; a ring that lacks a key loses nothing and holds nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from services.relay.ordered import OrderedReader
from services.relay.outbox import OutboxReader
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, seal
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.runtime.keyring import FileRingSource, FixedRingSource, write_ring
from tests.integration.relay.conftest import MakeOrderedReader, MakeReader
from tests.integration.relay.rows import add_outbox, count, outbox

pytestmark = pytest.mark.postgres

LOOKUP = bytes(32)
OLD = KeyRing(active="k1", keys={"k1": b"1" * 32}, lookup_key=LOOKUP)
BOTH = KeyRing(active="k2", keys={"k1": b"1" * 32, "k2": b"2" * 32}, lookup_key=LOOKUP)
LOST = KeyRing(active="k1", keys={"k1": b"1" * 32}, lookup_key=LOOKUP, lost=frozenset({"k2"}))


async def add_sealed(pool: Pool, ring: KeyRing, payload: bytes, **changed: Any) -> UUID:
    row = new_id()
    sealed = seal(ring, Purpose.OUTBOX, row.bytes, payload)
    await add_outbox(pool, **{"id": row, "payload": sealed, "sealed": True, **changed})
    return row


def payloads(broker: InMemoryProducer) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records)


async def until(holds: Callable[[], bool], reader: OutboxReader | OrderedReader) -> None:
    """Rounds of the reader, until it holds."""
    deadline = asyncio.get_running_loop().time() + 60
    while not holds():
        assert asyncio.get_running_loop().time() < deadline
        await reader.round()


async def make_due(pool: Pool) -> None:
    """Now, as if the rows had rested for as long as they were put back for."""
    await pool.execute("UPDATE ulak.outbox SET available_at = now() WHERE available_at < 'infinity'")


async def test_is_published_open(pool: Pool, broker: InMemoryProducer, make_reader: MakeReader) -> None:
    await add_sealed(pool, OLD, b"secret")

    await make_reader(broker, rings=FixedRingSource(OLD)).round()

    assert payloads(broker) == [b"secret"]
    assert await count(pool, "outbox") == 0


async def test_a_key_that_is_missing_makes_its_rows_wait_and_no_others(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    waits = await add_sealed(pool, BOTH, b"new")
    await add_sealed(pool, OLD, b"old")
    await add_outbox(pool, payload=b"clear")
    due = await pool.fetchval("SELECT now()")

    await make_reader(broker, rings=FixedRingSource(OLD)).round()

    assert payloads(broker) == [b"clear", b"old"]
    (left,) = await outbox(pool)
    assert (left["id"], left["error"], left["sealed"]) == (waits, None, True)
    assert 0.5 < (left["available_at"] - due).total_seconds() < 10, "not at once, but soon"
    assert await count(pool, "dead_letters") == 0


async def test_it_is_published_once_the_ring_has_its_key(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, tmp_path: Path
) -> None:
    ring = tmp_path / "ring.json"
    write_ring(ring, OLD)
    reader = make_reader(broker, rings=FileRingSource(ring))
    await add_sealed(pool, BOTH, b"new")
    await reader.round()
    assert broker.records == []

    write_ring(ring, BOTH)
    await until(lambda: payloads(broker) == [b"new"], reader)


async def test_two_relays_with_different_rings_lose_nothing_during_a_rotation(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    """The one that lacks the key puts its rows back, and leaves them to the one that has it from then on."""
    expected = []
    for number in range(60):
        payload = f"{number:03}".encode()
        await add_sealed(pool, BOTH if number % 2 else OLD, payload)
        expected.append(payload)
    behind, ahead = (make_reader(broker, rings=FixedRingSource(ring), leave_sec=600) for ring in (OLD, BOTH))
    await behind.round()
    assert payloads(broker) == expected[::2]
    await make_due(pool)
    put_back = [dict(row) for row in await outbox(pool)]
    assert len(put_back) == 30

    await behind.round()
    assert [dict(row) for row in await outbox(pool)] == put_back, "left alone, so that they stay due"
    await asyncio.gather(behind.round(), ahead.round())

    assert payloads(broker) == expected
    assert await count(pool, "outbox") == 0


async def test_what_no_relay_took_in_time_is_looked_at_again(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, tmp_path: Path
) -> None:
    """By a relay that lacks its key: the key may have come since."""
    ring = tmp_path / "ring.json"
    write_ring(ring, OLD)
    reader = make_reader(broker, rings=FileRingSource(ring), leave_sec=1.0)
    await add_sealed(pool, BOTH, b"new")
    await reader.round()

    write_ring(ring, BOTH)
    await until(lambda: payloads(broker) == [b"new"], reader)


async def test_a_key_that_came_since_holds_nothing_back(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, tmp_path: Path
) -> None:
    write_ring(tmp_path / "ring.json", OLD)
    rings = FileRingSource(tmp_path / "ring.json")
    reader = make_reader(broker, rings=rings, leave_sec=600)
    await add_sealed(pool, BOTH, b"new")
    await reader.round()
    await make_due(pool)

    write_ring(tmp_path / "ring.json", BOTH)
    rings.refresh()
    await reader.round()

    assert payloads(broker) == [b"new"]


async def test_a_lost_key_and_a_moved_value_are_set_aside_and_told(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    lost = await add_sealed(pool, BOTH, b"new")
    await add_sealed(pool, OLD, b"of another row", id=new_id())
    await add_sealed(pool, OLD, b"old")

    await make_reader(broker, rings=FixedRingSource(LOST)).round()

    assert payloads(broker) == [b"old"]
    left = {row["id"]: row for row in await outbox(pool)}
    assert left[lost]["error"] == "lost_key: sealed under key 'k2', which the key ring records as lost"
    assert len(left) == 2
    assert {row["available_at"].year for row in left.values()} == {9999}
    letters = await pool.fetch("SELECT error_class, detail FROM ulak.dead_letters ORDER BY error_class")
    assert [letter["error_class"] for letter in letters] == ["lost_key", "tampered"]
    assert str(lost) in letters[0]["detail"]


async def test_an_ordered_row_that_waits_for_its_key_holds_those_behind_it(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader, tmp_path: Path
) -> None:
    await add_sealed(pool, OLD, b"1", ordered=True)
    await add_sealed(pool, BOTH, b"2", ordered=True)
    await add_sealed(pool, OLD, b"3", ordered=True)
    await make_ordered(broker, rings=FixedRingSource(OLD)).round()
    assert payloads(broker) == [b"1"]

    await until(lambda: len(broker.records) >= 3, make_ordered(broker, rings=FixedRingSource(BOTH)))
    assert [record.value for record in broker.records] == [b"1", b"2", b"3"]


async def test_a_relay_that_lacks_the_key_leaves_ordered_rows_and_those_behind_them_to_the_other(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    for number in range(9):
        await add_sealed(pool, BOTH if number % 3 == 1 else OLD, str(number).encode(), ordered=True)
    behind, ahead = (make_ordered(broker, rings=FixedRingSource(ring), leave_sec=600) for ring in (OLD, BOTH))
    await behind.round()
    await make_due(pool)

    await behind.round()
    assert payloads(broker) == [b"0"]
    await ahead.round()

    assert [record.value for record in broker.records] == [str(number).encode() for number in range(9)]


async def test_a_lost_key_lets_those_behind_it_flow(
    pool: Pool, broker: InMemoryProducer, make_ordered: MakeOrderedReader
) -> None:
    await add_sealed(pool, BOTH, b"1", ordered=True)
    await add_sealed(pool, OLD, b"2", ordered=True)

    await make_ordered(broker, rings=FixedRingSource(LOST)).round()

    assert payloads(broker) == [b"2"]
    assert await count(pool, "outbox") == 1
