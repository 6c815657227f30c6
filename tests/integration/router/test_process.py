"""The router as it runs: a process of its own, a real broker, a real database."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import confluent_kafka
import orjson
import pytest

from shared.core.sealing import KeyRing
from shared.kafka.dead_letters import HEADER_ERROR_CLASS, HEADER_SEALED, open_value
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.runtime.keyring import ring_json
from shared.wire.message import RequestHint, encode
from shared.wire.topic import DOMAIN_EVENTS, ROUTER_DLQ, TopicSpec, declared_topics
from tests.integration.router.stage import Router, order_shipped, orders_shipped

pytestmark = [pytest.mark.postgres, pytest.mark.kafka]

ROOT = Path(__file__).parents[3]
NEEDED = frozenset(
    {
        *(DOMAIN_EVENTS, ROUTER_DLQ, "delivery-events", "push-tx", "email-tx"),
        *("notification-requests-critical", "notification-requests-tx", "notification-requests-bulk"),
    }
)


@asynccontextmanager
async def running(
    database: str, ring: KeyRing, kafka: KafkaSettings, redis_url: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python -m services.router --input all`; ended by SIGTERM at the latest."""
    environment = {
        **os.environ,
        "ULAK_POSTGRES_DSN": database,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "ULAK_REDIS_URL": redis_url,
        "ULAK_KEY_RING": ring_json(ring).decode(),
        "ULAK_HEALTH_PORT": "0",
        # A killed member is missed after as little as the broker allows; small batches, so that it dies in between.
        "ULAK_KAFKA_SESSION_TIMEOUT_MS": "6000",
        "ULAK_KAFKA_HEARTBEAT_INTERVAL_MS": "500",
        "ULAK_ROUTER_BATCH_SIZE": "20",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.router", "--input", "all"), cwd=ROOT, env=environment
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), 60)


def _take(kafka: KafkaSettings, topic: str, count: int) -> list[confluent_kafka.Message]:
    """The first `count` messages of a topic of one partition; fails after a minute."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test", "enable.auto.commit": False}
    )
    with closing(consumer):
        consumer.assign([confluent_kafka.TopicPartition(kafka.names.full(topic), 0, 0)])
        found: list[confluent_kafka.Message] = []
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message)
            if len(found) == count:
                return found
    raise AssertionError(f"{len(found)} of {count} messages arrived on {topic}")


async def take(kafka: KafkaSettings, topic: str, count: int) -> list[confluent_kafka.Message]:
    return await asyncio.to_thread(_take, kafka, topic, count)


@pytest.fixture
async def kafka(kafka_settings: KafkaSettings) -> KafkaSettings:
    specs = [TopicSpec(s.name, 1, s.retention_ms) for s in declared_topics() if s.name in NEEDED]
    await apply(kafka_settings, specs)
    return kafka_settings


async def test_requests_events_and_poison(
    router: Router, database: str, key_ring: KeyRing, kafka: KafkaSettings, redis_url: str
) -> None:
    request = await router.accept()
    value, headers = encode(RequestHint(request))
    poison = b'{"specversion": "1.0", "id":'
    async with Producer.open(kafka, name="test") as producer:
        await producer.publish(
            [
                Record("notification-requests-tx", b"7", value, headers),
                Record(DOMAIN_EVENTS, b"1", poison),
                Record(DOMAIN_EVENTS, b"1", orjson.dumps(order_shipped())),
            ]
        )
    async with running(database, key_ring, kafka, redis_url) as process:
        pushes = await take(kafka, "push-tx", 4)
        await take(kafka, "email-tx", 2)
        (letter,) = await take(kafka, ROUTER_DLQ, 1)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert {orjson.loads(push.value() or b"")["notificationId"] for push in pushes} >= {str(request)}
    letter_headers = dict(letter.headers() or [])
    assert letter_headers[HEADER_ERROR_CLASS] == b"MalformedMessageError"
    assert letter_headers[HEADER_SEALED] == b"1"
    assert open_value(ROUTER_DLQ, key_ring, letter.value() or b"") == poison


async def test_kill_loses_nothing(
    router: Router, database: str, key_ring: KeyRing, kafka: KafkaSettings, redis_url: str
) -> None:
    """SIGKILL somewhere in a stream of events: the next process completes it, each event once."""
    events = orders_shipped(300)
    async with Producer.open(kafka, name="test") as producer:
        await producer.publish([Record(DOMAIN_EVENTS, b"1", orjson.dumps(event)) for event in events])
    async with running(database, key_ring, kafka, redis_url) as process:
        await take(kafka, "push-tx", 1)
        process.kill()
        await process.wait()
    async with running(database, key_ring, kafka, redis_url):
        await take(kafka, "email-tx", 300)
        for _ in range(300):
            if await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 300:
                break
            await asyncio.sleep(0.1)
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.notifications") == 300
    assert await router.pool.fetchval("SELECT count(*) FROM ulak.deliveries") == 900
