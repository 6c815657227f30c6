"""`ulak outbox republish`: published events back in their outbox, and out again by the relay under the same ids."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.core.identifier import new_id
from shared.core.sealing import KeyRing, Purpose, seal
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.wire.channel import MessageClass
from tests.integration.ops.cli.outbox.conftest import Operator, publish
from tests.integration.relay.conftest import MakeOrderedReader, MakeReader
from tests.integration.relay.rows import add_outbox, outbox

pytestmark = pytest.mark.postgres


async def add_published(pool: Pool, count: int = 1, *, hours_ago: float = 0.5, **columns: Any) -> list[UUID]:
    ids = await add_outbox(pool, count, **columns)
    await publish(pool, columns.get("message_class", MessageClass.TX))
    at = datetime.now(UTC) - timedelta(hours=hours_ago)
    await pool.execute("UPDATE ulak.outbox_published SET published_at = $2 WHERE id = ANY ($1::uuid[])", ids, at)
    return ids


async def kept(pool: Pool) -> set[UUID]:
    return {row["id"] for row in await pool.fetch("SELECT id FROM ulak.outbox_published")}


def event(type_name: str) -> bytes:
    return orjson.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": type_name, "data": {}})


async def test_without_yes_nothing_is_changed_and_all_is_told(operator: Operator, foreign_pool: Pool) -> None:
    tx = await add_published(foreign_pool, 3)
    bulk = await add_published(foreign_pool, 2, message_class=MessageClass.BULK, topic="news", hours_ago=1.5)
    old = await add_published(foreign_pool, hours_ago=3)

    body = await operator.reads("republish", "--since", "2h")

    own, shop = body["sources"]
    assert (body["dryRun"], own["count"]) == (True, 0)
    assert (shop["count"], shop["missed"], shop["unreadable"]) == (5, 0, 0)
    assert shop["topics"] == [
        {"topic": "news", "class": "bulk", "count": 2},
        {"topic": "orders", "class": "tx", "count": 3},
    ]
    assert shop["firstAt"] < shop["lastAt"]
    assert await kept(foreign_pool) == {*tx, *bulk, *old}
    assert await outbox(foreign_pool) == []
    output = (await operator.types("republish", "--since", "2h", "--topic", "news")).output
    assert "shop: would be published again: 2 events, published from" in output
    assert output.endswith("Nothing was changed: --yes does it.\n")


async def test_they_go_out_again_as_they_were(operator: Operator, foreign_pool: Pool, make_reader: MakeReader) -> None:
    ids = await add_published(foreign_pool, 1200, headers={"traceparent": "00"}, key=b"k")
    before = await foreign_pool.fetch("SELECT * FROM ulak.outbox_published ORDER BY id")

    body = await operator.reads("republish", "--since", "1h", "--yes", "--rate", "100000")

    assert body["sources"][1]["count"] == 1200
    waiting = {row["id"]: row for row in await outbox(foreign_pool)}
    assert set(waiting) == set(ids)
    assert await kept(foreign_pool) == set()
    same = ("message_class", "topic", "key", "payload", "headers", "sequence", "ordered", "sealed")
    assert all(waiting[row["id"]][column] == row[column] for row in before for column in same)
    broker = InMemoryProducer(topics=["orders"])
    reader = make_reader(broker, pool=foreign_pool, source="shop", keeps=True, batch=500)
    while await reader.round():
        pass
    assert len(broker.records) == 1200
    assert await kept(foreign_pool) == set(ids), "and may be published once more"


async def test_the_order_of_a_key_is_kept(
    operator: Operator, foreign_pool: Pool, make_ordered: MakeOrderedReader
) -> None:
    broker = InMemoryProducer(topics=["orders"])
    await add_outbox(foreign_pool, 30, ordered=True)
    reader = make_ordered(broker, pool=foreign_pool, source="shop", keeps=True)
    while await reader.round():
        pass
    await operator.types("republish", "--since", "1h", "--yes")
    while await reader.round():
        pass
    first, again = broker.records[:30], broker.records[30:]
    assert [record.value for record in again] == [record.value for record in first]


async def test_they_are_chosen_by_type_also_of_sealed_and_binary_ones(
    operator: Operator, foreign_pool: Pool, key_ring: KeyRing
) -> None:
    [plain] = await add_published(foreign_pool, payload=event("a"))
    [binary] = await add_published(foreign_pool, payload=b"not JSON", headers={"ce_type": "a"})
    sealed_id = new_id()
    sealed = seal(key_ring, Purpose.OUTBOX, sealed_id.bytes, event("a"))
    await add_published(foreign_pool, id=sealed_id, payload=sealed, sealed=True)
    await add_published(foreign_pool, payload=event("b"))
    await add_published(foreign_pool, payload=b"[]")
    await add_published(foreign_pool, payload=b"not JSON")

    operator.has_ring = False
    [_, shop] = (await operator.reads("republish", "--since", "1h", "--type", "a"))["sources"]
    assert (shop["count"], shop["unreadable"]) == (2, 1)
    assert "does not open them: 1 event\n" in (await operator.types("republish", "--since", "1h", "--type", "a")).output
    operator.has_ring = True

    [_, shop] = (await operator.reads("republish", "--since", "1h", "--type", "a", "--yes"))["sources"]
    assert (shop["count"], shop["unreadable"]) == (3, 0)
    assert {row["id"] for row in await outbox(foreign_pool)} == {plain, binary, sealed_id}


async def test_until_leaves_out_what_went_out_later(operator: Operator, foreign_pool: Pool) -> None:
    wanted = await add_published(foreign_pool, hours_ago=1.5)
    later = await add_published(foreign_pool, hours_ago=0.5)
    since = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    await operator.types("republish", "--since", since, "--until", "1h", "--yes")
    assert {row["id"] for row in await outbox(foreign_pool)} == set(wanted)
    assert await kept(foreign_pool) == set(later)


async def test_two_at_once_bring_each_back_once(operator: Operator, foreign_pool: Pool) -> None:
    ids = await add_published(foreign_pool, 2000)
    bodies = await asyncio.gather(
        *(operator.runs("republish", "--since", "1h", "--yes", "--rate", "100000") for _ in range(2))
    )
    assert sum(body["sources"][1]["count"] for body in bodies) == 2000
    assert {row["id"] for row in await outbox(foreign_pool)} == set(ids)


async def test_one_that_waits_already_stays_as_it_is(operator: Operator, foreign_pool: Pool) -> None:
    [id_] = await add_published(foreign_pool)
    await add_outbox(foreign_pool, id=id_, payload=b"waiting")
    [_, shop] = (await operator.reads("republish", "--since", "1h", "--yes"))["sources"]
    assert (shop["count"], shop["missed"]) == (0, 1)
    assert [row["payload"] for row in await outbox(foreign_pool)] == [b"waiting"]


async def test_the_rate_is_kept(operator: Operator, foreign_pool: Pool) -> None:
    await add_published(foreign_pool, 30)
    began = time.monotonic()
    await operator.types("republish", "--since", "1h", "--yes", "--rate", "20")
    assert time.monotonic() - began >= 30 / 20


async def test_a_source_that_is_down_is_told_with_how_to_go_on(operator: Operator, foreign_pool: Pool) -> None:
    await add_published(foreign_pool)
    operator.lose()
    output = (await operator.types("republish", "--since", "1h", "--yes", exit_code=1)).output
    assert "shop: back in the outbox: 1 event, published from" in output
    assert "run it again with --until 20" in output


async def test_where_nothing_is_kept_it_says_so(operator: Operator) -> None:
    assert "Nothing that is kept fits" in (await operator.types("republish", "--since", "1h")).output


async def test_since_is_a_span_or_a_time_with_its_offset(operator: Operator) -> None:
    for wrong in ("yesterday", "2026-01-15T09:30:00", "5"):
        output = (await operator.types("republish", "--since", wrong, exit_code=2)).output
        assert "2026-01-15T09:30:00+03:00" in output
    assert (await operator.types("republish", exit_code=2)).exit_code == 2
