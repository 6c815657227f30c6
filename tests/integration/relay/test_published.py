"""What a source keeps of its outbox: published rows for some hours, idempotency keys for a week."""

import asyncio
from datetime import timedelta

import pytest

from services.relay.prune import OutboxPruner
from services.relay.source import Source
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool
from shared.postgres.source import SourceSpec
from tests.integration.relay.conftest import MakeOrderedReader, MakeReader
from tests.integration.relay.rows import add_outbox, count

pytestmark = pytest.mark.postgres


@pytest.fixture
def source(foreign_database: str, foreign_pool: Pool) -> Source:
    return Source(SourceSpec("shop", foreign_database, "shop"), foreign_pool, foreign_pool)


async def test_published_rows_are_kept_as_they_were(
    foreign_pool: Pool, broker: InMemoryProducer, make_reader: MakeReader, make_ordered: MakeOrderedReader
) -> None:
    await add_outbox(foreign_pool, headers={"ce_id": "7"})
    await add_outbox(foreign_pool, payload=b"2", ordered=True)
    before = {row["id"]: row for row in await foreign_pool.fetch("SELECT * FROM ulak.outbox")}

    await make_reader(broker, pool=foreign_pool, source="shop", keeps=True).round()
    await make_ordered(broker, pool=foreign_pool, source="shop", keeps=True).round()

    kept = {row["id"]: row for row in await foreign_pool.fetch("SELECT * FROM ulak.outbox_published")}
    assert len(broker.records) == len(kept) == 2
    for row_id, row in before.items():
        columns = ("message_class", "topic", "key", "payload", "headers", "sequence", "ordered", "sealed")
        assert [kept[row_id][column] for column in columns] == [row[column] for column in columns]


async def test_what_was_not_published_is_not_kept(
    foreign_pool: Pool, broker: InMemoryProducer, make_reader: MakeReader
) -> None:
    """One is set aside, one goes back: the broker lost its topic."""
    await add_outbox(foreign_pool, topic="oders")
    await add_outbox(foreign_pool, topic="domain-events")
    (published,) = await add_outbox(foreign_pool)

    with pytest.raises(PublishError):
        await make_reader(broker, pool=foreign_pool, source="shop", keeps=True).round()

    assert [row["id"] for row in await foreign_pool.fetch("SELECT id FROM ulak.outbox_published")] == [published]
    assert await count(foreign_pool, "outbox") == 2


async def test_our_own_outbox_keeps_none(pool: Pool, broker: InMemoryProducer, make_reader: MakeReader) -> None:
    await add_outbox(pool, 3)

    await make_reader(broker).round()

    assert await count(pool, "outbox_published") == 0


async def test_both_are_pruned_in_batches_when_their_time_is_over(source: Source, foreign_pool: Pool) -> None:
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox_published "
        "(id, message_class, topic, payload, headers, sequence, ordered, sealed, published_at) "
        "SELECT gen_random_uuid(), 1, 'orders', '', '{}', n, false, false, now() - n * interval '1 hour' "
        "FROM generate_series(1, 2500) AS n"
    )
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox_keys (idempotency_key, event_id, created_at) VALUES "
        "('old', '1', now() - interval '8 days'), ('new', '2', now() - interval '6 days')"
    )
    pruner = OutboxPruner(source, keep_published_sec=timedelta(hours=6, minutes=30).total_seconds())

    assert await pruner.round() is True, "a batch was full"
    while await pruner.round():
        pass

    assert await count(foreign_pool, "outbox_published") == 6
    assert await foreign_pool.fetchval("SELECT array_agg(idempotency_key) FROM ulak.outbox_keys") == ["new"]


async def test_one_relay_at_a_time_prunes(source: Source, foreign_pool: Pool) -> None:
    await foreign_pool.execute(
        "INSERT INTO ulak.outbox_keys (idempotency_key, event_id, created_at) VALUES ('old', '1', '2020-01-01')"
    )
    pruners = [OutboxPruner(source, keep_published_sec=0) for _ in range(2)]
    async with foreign_pool.acquire() as busy, busy.transaction():
        await busy.fetchval("SELECT pg_advisory_xact_lock($1)", 0x756C616B_11)
        await asyncio.gather(*(pruner.round() for pruner in pruners))
        assert await count(foreign_pool, "outbox_keys") == 1
    await pruners[0].round()
    assert await count(foreign_pool, "outbox_keys") == 0
