"""A campaign that stands still holds up no login code: in the database, and in a process that serves both."""

import asyncio
from dataclasses import replace

import pytest

from services.workers.share import Shares
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass, Promise
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_worker_process import Workers, create, in_status, publish, workers
from tests.integration.delivery.world import ScriptedSender, Seeded, Seeder, make_world, until
from tests.integration.plain_http import plain_client

__all__ = ["workers"]

pytestmark = pytest.mark.postgres

_BACKLOG = 2_000


async def campaign(seeder: Seeder, count: int = _BACKLOG) -> list[Seeded]:
    """Bulk SMS, each to a phone of its own."""
    return list(
        await asyncio.gather(
            *(
                seeder.delivery("SMS", message_class=MessageClass.BULK, address=f"+90533{number:07}")
                for number in range(count)
            )
        )
    )


async def code(seeder: Seeder) -> Seeded:
    return await seeder.delivery("SMS", message_class=MessageClass.CRITICAL, promise=Promise.AT_LEAST_ONCE)


@pytest.mark.kafka
@pytest.mark.redis
async def test_a_code_passes_a_campaign_that_has_every_bulk_connection_of_the_process(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    lanes = [DEFAULT_CHANNELS.lane(name) for name in ("otp-sms", "sms-bulk")]
    await create(kafka_settings, *lanes)
    environment = {**workers.environment, "ULAK_WORKERS_POOL_SIZE": "2"}
    await replace(workers, environment=environment).start(*(lane.name for lane in lanes))
    seeder = Seeder(pool, key_ring)
    bulk = await campaign(seeder)

    async def bulk_is_stuck() -> bool:
        waiting: int = await pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE '%claim_deliveries%'"
        )
        return waiting == 2

    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM ulak.deliveries WHERE message_class = 2 FOR UPDATE")
        await publish(kafka_settings, *bulk)
        await until(bulk_is_stuck, what="claims on both bulk connections that wait for their rows")
        for _ in range(5):
            login = await code(seeder)
            await publish(kafka_settings, login)
            await in_status(seeder, login, "SENT")
        assert len(await simulator.accepted("twilio")) == 5  # and nothing of the campaign

    async def all_sent() -> bool:
        return not await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status <> 'SENT'")

    await until(all_sent, timeout_sec=120, what="the campaign's end")
    async with plain_client(trust_env=False) as client:
        stats = (await client.get(f"{simulator.url}/_sim/stats")).raise_for_status().json()
    assert stats["providers"]["twilio"]["accepted"] == _BACKLOG + 5
    assert stats["references"]["acceptedMoreThanOnce"] == 0


async def test_a_code_begins_while_a_campaign_has_every_slot_of_the_process(pool: Pool, key_ring: KeyRing) -> None:
    never = ScriptedSender(gate=asyncio.Event())
    bulk = make_world("sms-bulk", pool, key_ring, sender=never)
    critical = make_world("otp-sms", pool, key_ring)
    shares = Shares(list(MessageClass), slots=4)
    work_bulk = shares.shared(MessageClass.BULK, bulk.pipeline)
    work_critical = shares.shared(MessageClass.CRITICAL, critical.pipeline)
    seeded = await campaign(bulk.seeder, 12)
    under_way = [asyncio.create_task(work_bulk(bulk.received(each))) for each in seeded]

    async def all_slots_are_lent() -> bool:
        return bool(await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'SENDING'") == 4)

    await until(all_slots_are_lent, what="four batches of the campaign at once")
    login = await code(critical.seeder)
    await work_critical(critical.received(login))
    assert (await critical.seeder.row(login.key))["status"] == "SENT"
    assert await pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'PENDING'") == 8
    assert never.gate is not None
    never.gate.set()
    await asyncio.gather(*under_way)
    assert {(await bulk.seeder.row(each.key))["status"] for each in seeded} == {"SENT"}
