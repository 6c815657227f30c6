"""A campaign that stands still in the outbox holds up no login code."""

import asyncio
import time
from functools import partial

import pytest

from services.relay.opener import Opener
from services.relay.outbox_loops import reading_loops
from services.relay.publication import Ways
from services.relay.settings import RelaySettings
from services.relay.source import Source, connections
from services.relay.topics import TopicDirectory
from shared.kafka.memory import InMemoryProducer
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import OWN, SourceSpec
from shared.runtime.keyring import FixedRingSource
from shared.runtime.service import Stop
from shared.wire.channel import MessageClass
from tests.integration.delivery.world import until
from tests.integration.relay.rows import add_outbox, count

pytestmark = pytest.mark.postgres

_BACKLOG = 5_000


class NeverAcknowledging(InMemoryProducer):
    """A broker that takes everything and says nothing, until `resume`."""

    def ready(self) -> bool:
        return True


async def test_a_code_passes_a_campaign_that_has_every_connection_and_no_acknowledgement(
    database: str, pool: Pool, rings: FixedRingSource
) -> None:
    await pool.execute(
        "INSERT INTO ulak.outbox (message_class, topic, key, payload, available_at)"
        " SELECT 2, 'orders', 'k', n::text::bytea, now() - interval '1 hour' FROM generate_series(1, $1::int) AS n",
        _BACKLOG,
    )
    settings = RelaySettings()
    postgres = PostgresSettings(dsn=database)
    campaign, codes = NeverAcknowledging(), InMemoryProducer()
    campaign.stall()

    async def topics() -> frozenset[str]:
        return frozenset({"orders"})

    def ways(publisher: InMemoryProducer) -> Ways:
        opener = Opener(rings, clock=time.monotonic)
        return Ways(publisher, TopicDirectory(topics, declared=["orders"]), opener, index=pool)

    async def stuck() -> int:
        held: int = await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        return held

    def published(codes_so_far: int) -> bool:
        return len(codes.records) == codes_so_far

    async def empty() -> bool:
        return not await count(pool, "outbox")

    stop = Stop()
    async with (
        open_pool(postgres, name="relay critical", size=2) as critical_pool,
        open_pool(postgres, name="relay", size=connections(settings)) as own_pool,
    ):
        source = Source(SourceSpec(OWN, database, OWN), critical_pool, own_pool)
        loops = reading_loops(source, settings, critical=ways(codes), others=ways(campaign))
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.run(stop))
            await until(stuck, what="a claim that waits for the broker")
            for number in range(1, 6):
                await add_outbox(pool, message_class=MessageClass.CRITICAL)
                await until(partial(published, number), what="the code")
            assert campaign.records == []
            assert await count(pool, "outbox") >= _BACKLOG
            campaign.resume()
            await until(empty, what="the campaign's end")
            stop.request()
    assert len(campaign.records) == _BACKLOG
