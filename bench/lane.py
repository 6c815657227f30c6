"""What the worker benches share: rows that wait, a pipeline over real servers, the check that each went out once."""

import asyncio
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

import orjson

from bench.harness import Sample, Servers, WrongResultError, until
from bench.scratch import scratch_database
from shared.core.breaker import Policy
from shared.core.identifier import new_id
from shared.core.ports import Prepared, Sender
from shared.core.reference import DeliveryKey
from shared.core.sealing import KeyRing, Purpose, keyed_hash, seal
from shared.delivery.consent import ConsentCheck
from shared.delivery.hours import AllowedHours
from shared.delivery.opening import Opening
from shared.delivery.order import LaneOrder, in_turn
from shared.delivery.pause import Pauses
from shared.delivery.pipeline import Pipeline
from shared.delivery.route import Routes
from shared.delivery.store import DeliveryStore
from shared.kafka.producer import Producer
from shared.kafka.record import Received
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool, open_pool
from shared.postgres.provider import ProviderEvents
from shared.postgres.settings import PostgresSettings
from shared.redis_store.breaker import Breakers, BreakerScript, kept_current
from shared.redis_store.client import open_redis
from shared.redis_store.pacer import Pacer
from shared.redis_store.settings import RedisSettings
from shared.redis_store.token_bucket import Quota, TokenBuckets
from shared.runtime.garbage import collect_rarely
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import DEFAULT_CHANNELS, Lane
from shared.wire.message import DeliveryHint
from shared.wire.topic import DELIVERY_EVENTS, TopicSpec

RING: Final = KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(range(32)))
_NOTIFICATION: Final = "id application_id event_id type message_class mode state expires_at created_at"
_DELIVERY: Final = (
    "notification_id channel target_key address_sealed platform status message_class promise mode attempt "
    "next_attempt_at expires_at created_at updated_at"
)
_CONTENT: Final = "notification_id channel sealed purpose locale template_version"
BATCHES_IN_FLIGHT: Final = 4
"""As a worker's default."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: so many deliveries of one channel, all to different addresses."""

    lane: Lane
    count: int
    address: Callable[[int], str]
    content: dict[str, str]
    platform: str | None = None


def prepared(load: Load) -> list[Prepared]:
    """The same messages as `Stage.seed` writes, opened: what the bare limit sends."""
    expires_at = datetime.now(UTC) + timedelta(hours=6)
    return [
        Prepared(
            key=DeliveryKey(new_id(), load.lane.channel, number.to_bytes(32, "big")),
            attempt=1,
            address=load.address(number),
            content=load.content,
            message_class=load.lane.message_class,
            expires_at=expires_at,
            platform=load.platform,
        )
        for number in range(load.count)
    ]


@dataclass(frozen=True, slots=True)
class Stage:
    """One lane over real servers."""

    kafka: KafkaSettings
    pool: Pool
    producer: Producer
    pacer: Pacer
    breakers: Breakers
    load: Load
    _seeded: list[int] = field(default_factory=list)

    async def seed(self) -> list[DeliveryHint]:
        """The load's rows, committed and PENDING; their hints."""
        load, now = self.load, datetime.now(UTC)
        expires_at, lane = now + timedelta(hours=6), load.lane
        hints, notifications, deliveries, contents = [], [], [], []
        for number in range(load.count):
            notification_id, address = new_id(), load.address(number)
            target = keyed_hash(RING, f"target:{lane.channel}", address)
            sealed = seal(RING, Purpose.ADDRESS, target, address.encode())
            content_row = notification_id.bytes + lane.channel.encode()
            content = seal(RING, Purpose.CONTENT, content_row, orjson.dumps(load.content))
            cls = int(lane.message_class)
            promise = DEFAULT_CHANNELS.spec(lane.channel).default_promise
            notifications.append(
                (notification_id, 1, str(notification_id), "T", cls, "live", "DECIDED", expires_at, now)
            )
            deliveries.append((
                notification_id, lane.channel, target, sealed, load.platform, "PENDING", cls, promise, "live", 0,
                now, expires_at, now, now,
            ))  # fmt: skip
            contents.append((notification_id, lane.channel, content, "content-v1", "tr", 1))
            hints.append(DeliveryHint(notification_id, lane.channel, target, 0, lane.message_class))
        for table, columns, records in (
            ("notifications", _NOTIFICATION, notifications),
            ("deliveries", _DELIVERY, deliveries),
            ("contents", _CONTENT, contents),
        ):
            await self.pool.copy_records_to_table(
                table, schema_name="ulak", columns=columns.split(), records=records, timeout=60
            )
        await self.pool.execute("ANALYZE ulak.deliveries, ulak.notifications, ulak.contents")
        return hints

    def pipeline(self, sender: Sender) -> Pipeline:
        """The lane's, with this as its only provider."""
        return Pipeline(
            self.load.lane,
            store=DeliveryStore(self.pool, self.load.lane),
            consents=ConsentCheck(self.pool, DEFAULT_CHANNELS.spec(self.load.lane.channel), FixedRingSource(RING)),
            senders={sender.provider: sender},
            routes=Routes(
                self.load.lane, LaneOrder({"": in_turn([sender.provider])}, {"": sender.provider}), self.breakers
            ),
            prepare=Opening(FixedRingSource(RING)),
            hours=AllowedHours(self.pool, self.load.lane, default_zone="Europe/Istanbul"),
            pauses=Pauses(self.load.lane, pool=self.pool, watch=ControlWatch(self.pool), publisher=self.producer),
            pacer=self.pacer,
            publisher=self.producer,
        )

    async def empty(self) -> None:
        """Without what was seeded and what became of it."""
        await self.pool.execute("TRUNCATE ulak.notifications, ulak.deliveries, ulak.contents, ulak.delivery_log")

    async def work(self, sender: Sender, distinct: Callable[[], Awaitable[tuple[int, int]]]) -> Sample:
        """All hints through the pipeline in polls of the lane's size; every one SENT, and at the sink exactly once."""
        hints = await self.seed()
        pipeline = self.pipeline(sender)
        batches = iter(polls(hints, self.load.lane))

        async def consume() -> None:
            for batch in batches:
                await pipeline(batch)

        before = await distinct()
        started = time.perf_counter()
        await asyncio.gather(*(consume() for _ in range(BATCHES_IN_FLIGHT)))
        seconds = time.perf_counter() - started
        sent = await self.pool.fetchval("SELECT count(*) FROM ulak.deliveries WHERE status = 'SENT'")
        after = await distinct()
        arrived = (after[0] - before[0], after[1] - before[1])
        await self.empty()
        if sent != len(hints) or arrived != (len(hints), len(hints)):
            raise WrongResultError(f"{sent} sent, {arrived} arrived (all, different) of {len(hints)}")
        return Sample(len(hints), seconds)


def polls(hints: Sequence[DeliveryHint], lane: Lane) -> list[list[Received[DeliveryHint]]]:
    """Hints as a consumer would hand them over, a poll each."""
    now = datetime.now(UTC)
    received = [Received(hint, lane.topic, 0, offset, b"user", {}, now) for offset, hint in enumerate(hints)]
    return [received[start : start + lane.poll_batch] for start in range(0, len(received), lane.poll_batch)]


@asynccontextmanager
async def open_stage(servers: Servers, load: Load, *, quotas: dict[str, Quota]) -> AsyncIterator[Stage]:
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"bench{secrets.token_hex(4)}-")
    lane = load.lane
    names = (DELIVERY_EVENTS, lane.topic, lane.dlq_topic, *lane.retry_topics)
    await apply(kafka, [TopicSpec(name, 2, 3_600_000) for name in names])
    with scratch_database(servers.postgres_dsn) as dsn:
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(open_pool(PostgresSettings(dsn=dsn), name="bench", size=6))
            producer = await stack.enter_async_context(Producer.open(kafka, name="bench"))
            settings = RedisSettings(url=servers.redis_url, key_prefix=f"bench-{secrets.token_hex(4)}:")
            redis = await stack.enter_async_context(open_redis(settings))
            pacer = Pacer(TokenBuckets(redis, settings.key_prefix), quotas, workers=1, retry_sec=1.0)

            policy = Policy()
            breakers = Breakers(
                BreakerScript(redis, settings.key_prefix, policy), policy, told=ProviderEvents(pool), retry_sec=1.0
            )
            await stack.enter_async_context(kept_current(breakers))

            async def ready() -> bool:
                return producer.ready()

            await until(ready, timeout_sec=30, what="the broker's answer")
            collect_rarely()  # as the worker does
            yield Stage(kafka, pool, producer, pacer, breakers, load)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@asynccontextmanager
async def sink(module: str, *arguments: str, port: int) -> AsyncIterator[int]:
    """A sink process until the block ends; its pid."""
    process = subprocess.Popen([sys.executable, "-m", module, *arguments])  # noqa: ASYNC220  a bench starts it once
    try:
        await until(partial(_listens, port), timeout_sec=20, what=f"{module} listening")
        yield process.pid
    finally:
        process.terminate()
        process.wait(10)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
