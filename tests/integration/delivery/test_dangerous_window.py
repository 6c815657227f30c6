"""Worker processes that are killed at the arrows of semantics.md, section 3, and rows that two of them hold at once.

Those between poll and claim, during a send and before its record are in test_worker_process.py.
"""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis

from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import Pool
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.topic import DELIVERY_EVENTS, TopicSpec
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_worker_process import Workers, create, in_status, publish, reap, workers
from tests.integration.delivery.world import Seeded, Seeder, until
from tests.integration.relay.process import until_read

__all__ = ["workers"]

pytestmark = [pytest.mark.postgres, pytest.mark.kafka, pytest.mark.redis]

LANE = DEFAULT_CHANNELS.lane("sms-tx")
_HOUR_MS = 3_600_000


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(10)


async def blocked(pool: Pool, query: str) -> bool:
    waiting: int = await pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'",
        query,
    )
    return waiting > 0


@asynccontextmanager
async def mute_server() -> AsyncIterator[int]:
    """Takes connections and never says a word, so that nothing can be handed over."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def events(kafka: KafkaSettings, count: int) -> list[dict[str, Any]]:
    """The first ones."""
    return [orjson.loads(value) for value in await until_read(kafka, DELIVERY_EVENTS, count)]


async def test_killed_between_tokens_and_claim_is_sent_once_by_the_next_K1(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    await create(kafka_settings, LANE)
    first = await workers.start(LANE.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM ulak.deliveries FOR UPDATE")
        await publish(kafka_settings, seeded)
        await until(lambda: blocked(pool, "claim_deliveries"), what="the blocked claim")
        kill(first)
        # The server would end the dead client's statement before it looks for it: that is a kill after the claim.
        await pool.fetch(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE '%claim_deliveries%'"
        )
    assert (await seeder.row(seeded.key))["status"] == "PENDING"
    await workers.start(LANE.name)
    await in_status(seeder, seeded, "SENT")
    assert len(await simulator.accepted("twilio")) == 1


@pytest.mark.parametrize(
    ("channel", "ends_as", "sent"), [("EMAIL", "SENT", 1), ("SMS", "UNKNOWN", 0)], ids=["at-least-once", "at-most-once"]
)
async def test_killed_between_claim_and_send_R4(
    channel: str,
    ends_as: str,
    sent: int,
    workers: Workers,
    simulator: Simulator,
    pool: Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
    redis_client: Redis,
    key_prefix: str,
) -> None:
    """With all that Redis knew lost in between: the row alone says what may be done."""
    lane = DEFAULT_CHANNELS.spec(channel).lane(MessageClass.TX)
    await create(kafka_settings, lane)
    seeder = Seeder(pool, key_ring)
    async with mute_server() as port:
        mute = {
            "ULAK_SMTP_HOST": "127.0.0.1",
            "ULAK_SMTP_PORT": str(port),
            "ULAK_TWILIO_BASE_URL": f"https://127.0.0.1:{port}",
        }
        stuck = replace(workers, environment={**workers.environment, **mute})
        first = await stuck.start(lane.name)
        seeded = await seeder.delivery(channel)
        await publish(kafka_settings, seeded)
        await in_status(seeder, seeded, "SENDING")
        kill(first)
    async for key in redis_client.scan_iter(match=f"{key_prefix}*"):
        await redis_client.delete(key)
    await workers.start(lane.name)  # it gets the same hint again, and must not send on it
    await reap(pool, kafka_settings)
    await in_status(seeder, seeded, ends_as)
    provider = {"EMAIL": "smtp", "SMS": "twilio"}[channel]
    assert len(await simulator.messages(provider)) == sent
    assert await seeder.leases() == 0


async def test_killed_between_record_and_publish_K10(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    """Without the events' topic no event is acknowledged."""
    names = [LANE.topic, *LANE.retry_topics, LANE.dlq_topic]
    await apply(kafka_settings, [TopicSpec(name, 1, _HOUR_MS) for name in names], replication_factor=1)
    first = await workers.start(LANE.name)
    seeder = Seeder(pool, key_ring)
    seeded = await seeder.delivery("SMS")
    await publish(kafka_settings, seeded)
    await in_status(seeder, seeded, "SENT")
    kill(first)
    await create(kafka_settings, LANE)
    await workers.start(LANE.name)
    (event,) = await events(kafka_settings, 1)
    assert event["data"]["status"] == "SENT"
    assert len(await simulator.accepted("twilio")) == 1


async def test_killed_between_publish_and_commit_tells_the_same_again_K10(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    await create(kafka_settings, LANE)
    # The first commit is at once; the next one is a minute away.
    lazy = replace(workers, environment={**workers.environment, "ULAK_KAFKA_COMMIT_INTERVAL_MS": "60000"})
    first = await lazy.start(LANE.name)
    seeder = Seeder(pool, key_ring)
    before, seeded = await seeder.delivery("SMS"), await seeder.delivery("SMS")
    await publish(kafka_settings, before)
    await events(kafka_settings, 1)
    await publish(kafka_settings, seeded)
    told = (await events(kafka_settings, 2))[1]
    kill(first)
    await workers.start(LANE.name)
    again = (await events(kafka_settings, 3))[2]
    assert again == told  # the same id, so that readers know it
    assert len(await simulator.accepted("twilio")) == 2


async def test_sigterm_gives_back_what_was_not_sent_and_the_next_sends_it_G1(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    await create(kafka_settings, LANE)
    await simulator.fault("twilio", delayMs=1_000)
    few = replace(workers, environment={**workers.environment, "ULAK_TWILIO_CONCURRENCY": "5"})
    first = await few.start(LANE.name)
    seeder = Seeder(pool, key_ring)
    seeded = [await seeder.delivery("SMS", address=f"+9053312345{number:02}") for number in range(60)]
    await publish(kafka_settings, *seeded)

    async def on_the_wire() -> bool:
        return bool(await simulator.messages("twilio"))

    await until(on_the_wire, what="the first calls at the provider")
    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 60) == 0
    left = [each for each in seeded if (await seeder.row(each.key))["status"] != "SENT"]
    assert len(left) > 30
    rows = [await seeder.row(each.key) for each in left]
    assert {(row["status"], row["attempt"], row["claim_id"]) for row in rows} == {("PENDING", 0, None)}
    assert await seeder.leases() == 0

    await simulator.fault("twilio", delayMs=0)
    await few.start(LANE.name)
    await _each_once(seeder, simulator, seeded)


async def test_two_workers_hold_the_same_messages_across_a_rebalance_and_each_is_sent_once(
    workers: Workers, simulator: Simulator, pool: Pool, kafka_settings: KafkaSettings, key_ring: KeyRing
) -> None:
    """The first keeps sending what it was revoked in the middle of; the second reads the same hints meanwhile."""
    await create(kafka_settings, LANE)
    await simulator.fault("twilio", delayMs=8_000)
    impatient = replace(workers, environment={**workers.environment, "ULAK_WORKERS_DRAIN_SEC": "0.5"})
    await impatient.start(LANE.name)
    seeder = Seeder(pool, key_ring)
    seeded = [await seeder.delivery("SMS", address=f"+9053312345{number:02}") for number in range(20)]
    await publish(kafka_settings, *seeded)

    async def all_on_the_wire() -> bool:
        return len(await simulator.messages("twilio")) == len(seeded)

    await until(all_on_the_wire, what="the calls at the provider")
    await impatient.start(LANE.name)  # the one partition may stay or move; each of both may hold the hints
    await publish(kafka_settings, *seeded)
    await _each_once(seeder, simulator, seeded)


async def _each_once(seeder: Seeder, simulator: Simulator, seeded: list[Seeded]) -> None:
    async def settled() -> bool:
        open_rows: int = await seeder.pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status <> 'SENT'")
        return open_rows == 0

    await until(settled, timeout_sec=90, what="all being sent")
    phones = sorted(message["to"] for message in await simulator.accepted("twilio"))
    assert len(phones) == len(set(phones)) == len(seeded)
