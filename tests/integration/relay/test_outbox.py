"""The outbox against a real PostgreSQL: nothing is lost, nothing blocks what comes after it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from services.relay.error import BrokerUnreachableError
from services.relay.scan import OLDEST
from shared.core.identifier import new_id
from shared.kafka.error import MissingTopicError, PublishError
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.wire.channel import MessageClass
from tests.integration.relay.conftest import MakeReader
from tests.integration.relay.rows import add_outbox, count, outbox

pytestmark = pytest.mark.postgres


def payloads(broker: InMemoryProducer) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records)


async def test_publishes_what_is_due_with_key_and_headers_and_removes_it(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    await add_outbox(pool, headers={"traceparent": "00-abc", "ce_id": "7", "count": 7})
    await add_outbox(pool, available_at=datetime.now(UTC) + timedelta(hours=1))

    assert await make_reader(broker).round() is False

    (record,) = broker.records
    assert (record.topic, record.key, record.value) == ("orders", b"order-98213", b"0")
    assert dict(record.headers) == {"traceparent": b"00-abc", "ce_id": b"7", "count": b"7"}
    assert await count(pool, "outbox") == 1


async def test_empties_many_batches_in_one_round(pool: Pool, broker: InMemoryProducer, make_reader: MakeReader) -> None:
    await add_outbox(pool, 95)

    await make_reader(broker).round()

    assert payloads(broker) == sorted(str(number).encode() for number in range(95))
    assert await count(pool, "outbox") == 0


async def test_a_class_is_claimed_apart(pool: Pool, broker: InMemoryProducer, make_reader: MakeReader) -> None:
    await add_outbox(pool, 30, message_class=MessageClass.BULK)
    await add_outbox(pool, message_class=MessageClass.CRITICAL, payload=b"code")

    await make_reader(broker, message_class=MessageClass.CRITICAL).round()

    assert payloads(broker) == [b"code"]
    assert await count(pool, "outbox") == 30


async def test_a_row_that_commits_late_is_published_O1(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    """A takes an earlier id and time and sleeps; B commits, the relay runs, A commits: both are published."""
    reader = make_reader(broker)
    insert = "INSERT INTO ulak.outbox (id, topic, payload) VALUES ($1, 'orders', $2)"
    async with pool.acquire() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute(insert, new_id(), b"A")
        await pool.execute(insert, new_id(), b"B")
        await reader.round()
        assert payloads(broker) == [b"B"]
        await transaction.commit()
    await reader.round()

    assert payloads(broker) == [b"A", b"B"]


async def test_what_commits_later_than_the_overlap_waits_for_the_full_scan_O1(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    reader = make_reader(broker, full_scan_sec=0.3)
    await add_outbox(pool, payload=b"new")
    await reader.round()
    await add_outbox(pool, payload=b"late", available_at=datetime.now(UTC) - timedelta(hours=1))

    deadline = asyncio.get_running_loop().time() + 60
    while payloads(broker) != [b"late", b"new"]:
        assert asyncio.get_running_loop().time() < deadline
        await reader.round()


async def test_several_relays_share_the_rows(pool: Pool, broker: InMemoryProducer, make_reader: MakeReader) -> None:
    await add_outbox(pool, 200)

    await asyncio.gather(*(make_reader(broker).round() for _ in range(4)))
    await make_reader(broker).round()

    assert payloads(broker) == sorted(str(number).encode() for number in range(200)), "each once"


async def test_a_row_locked_by_another_does_not_hold_the_rest_O3(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    """A row that asks for no order does not wait for one of its key."""
    first, _second = await add_outbox(pool, 2)
    async with pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM ulak.outbox WHERE id = $1 FOR UPDATE", first)
        await make_reader(broker).round()
        assert payloads(broker) == [b"1"]
    await make_reader(broker).round()

    assert payloads(broker) == [b"0", b"1"]


async def test_an_oversized_row_is_listed_and_put_aside_and_later_rows_flow_K15(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    (big,) = await add_outbox(pool, payload=b"x" * 1_200_000, available_at=datetime.now(UTC) - timedelta(minutes=1))
    await add_outbox(pool, 3)

    await make_reader(broker).round()

    assert payloads(broker) == [b"0", b"1", b"2"]
    (left,) = await outbox(pool)
    assert (left["id"], len(left["payload"])) == (big, 1_200_000)
    assert left["available_at"].year == 9999, "never due again by itself"
    letter = await pool.fetchrow("SELECT * FROM ulak.dead_letters")
    assert letter is not None
    assert (letter["topic"], letter["error_class"], letter["state"]) == ("outbox", "oversized", "open")
    assert str(big) in letter["detail"]
    assert await make_reader(broker).round() is False
    assert len(broker.records) == 3


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param('["a"]', id="a-list"),
        pytest.param('{"a": 1e400}', id="beyond-a-double"),
        pytest.param('{"a": ' + "[" * 1100 + "]" * 1100 + "}", id="beyond-a-reader-s-depth"),
    ],
)
async def test_headers_that_no_record_can_have_are_put_aside_as_they_are_and_later_rows_flow_K15(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, headers: str
) -> None:
    await pool.execute(
        "INSERT INTO ulak.outbox (topic, payload, headers) VALUES ('orders', 'bad', $1::text::jsonb)", headers
    )
    await add_outbox(pool, 3)

    await make_reader(broker).round()

    assert payloads(broker) == [b"0", b"1", b"2"]
    left = await pool.fetchrow("SELECT error, headers = $1::text::jsonb AS same FROM ulak.outbox", headers)
    assert left is not None
    assert left["same"]
    assert left["error"].startswith("invalid_record: headers")


async def test_a_topic_that_does_not_exist_is_listed_and_holds_nothing(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    (typo,) = await add_outbox(pool, topic="oders")
    await add_outbox(pool, 2)

    await make_reader(broker).round()

    assert payloads(broker) == [b"0", b"1"]
    detail = await pool.fetchval("SELECT detail FROM ulak.dead_letters WHERE error_class = 'unknown_topic'")
    assert str(typo) in detail
    assert "oders" in detail

    await pool.execute("UPDATE ulak.outbox SET available_at = now(), topic = 'orders' WHERE id = $1", typo)
    await make_reader(broker).round()
    assert await count(pool, "outbox") == 0


async def test_a_declared_topic_that_is_missing_makes_rows_wait(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    async def no_topics() -> frozenset[str]:
        return frozenset()

    await add_outbox(pool, topic="domain-events")
    reader = make_reader(broker)
    reader._publication._ways.topics._list = no_topics

    with pytest.raises(MissingTopicError):
        await reader.round()
    assert await count(pool, "outbox") == 1
    assert await count(pool, "dead_letters") == 0


async def test_rows_that_were_not_acknowledged_are_back_and_the_error_is_told(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    await add_outbox(pool, 3)
    broker.fail_next("_MSG_TIMED_OUT: Local: Message timed out")

    with pytest.raises(PublishError):
        await make_reader(broker).round()
    assert await count(pool, "outbox") == 3

    await make_reader(broker).round()
    assert payloads(broker) == [b"0", b"1", b"2"]


async def test_an_unreachable_broker_claims_nothing(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    await add_outbox(pool)
    broker.stall()

    with pytest.raises(BrokerUnreachableError):
        await make_reader(broker).round()
    assert await count(pool, "outbox") == 1


async def test_a_producers_own_database_is_read_and_its_rejects_are_listed_in_ours(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, foreign_pool: Pool
) -> None:
    await add_outbox(foreign_pool, 2)
    (typo,) = await add_outbox(foreign_pool, topic="oders")
    reader = make_reader(broker, source="db:5432/shop", pool=foreign_pool)

    await reader.round()

    assert payloads(broker) == [b"0", b"1"]
    assert [row["id"] for row in await outbox(foreign_pool)] == [typo]
    assert "db:5432/shop" in await pool.fetchval("SELECT detail FROM ulak.dead_letters")
    assert isinstance(typo, UUID)


async def test_a_long_transaction_does_not_make_claims_slower_O6(
    pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    """Under an old snapshot published rows stay in the index; claims start behind them and do not read them again."""
    reader = make_reader(broker, batch=1000, full_scan_sec=600.0)
    async with pool.acquire() as idle, idle.transaction(isolation="repeatable_read"):
        await idle.fetchval("SELECT count(*) FROM ulak.outbox")
        await pool.execute(
            "INSERT INTO ulak.outbox (topic, payload, available_at) "
            "SELECT 'orders', 'old', now() - interval '1 hour' + n * interval '1 millisecond' "
            "FROM generate_series(1, 20000) AS n"
        )
        while await reader.round():
            pass
        assert len(broker.records) == 20_000
        await add_outbox(pool, payload=b"fresh")
        from_the_oldest = await pages_read(pool, OLDEST)
        as_planned = await pages_read(pool, reader._plan.floor(time.monotonic()))
        await reader.round()

    assert broker.records[-1].value == b"fresh"
    assert as_planned * 5 < from_the_oldest, "the overlap of two seconds, not the hour"


async def pages_read(pool: Pool, floor: datetime) -> int:
    """What finding the due rows costs from there on."""
    plan = await pool.fetchval(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT ctid FROM ulak.outbox WHERE message_class = 1 "
        "AND available_at >= $1 AND available_at <= now() ORDER BY available_at LIMIT 1000 FOR UPDATE SKIP LOCKED",
        floor,
    )
    root = orjson.loads(plan)[0]["Plan"]
    pages: int = root["Shared Hit Blocks"] + root["Shared Read Blocks"]
    return pages
