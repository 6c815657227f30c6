"""From a producer's commit to its event at a consumer, idle: through its own outbox, NOTIFY and the relay.

The limit is the same producer and consumer without outbox and relay. The figure is the median in seconds; the note has
the 99th percentile, and the median where NOTIFY is not to be had and the relay polls.
"""

import asyncio
import secrets
import statistics
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import confluent_kafka
import psycopg

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError, until
from bench.scratch import RING, scratch_database
from services.relay.opener import Opener
from services.relay.outbox_loops import reading_loops
from services.relay.publication import Ways
from services.relay.settings import RelaySettings
from services.relay.source import ForeignSource
from services.relay.topics import TopicDirectory
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres import producer
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import SourceSpec
from shared.runtime.keyring import FixedRingSource
from shared.runtime.service import Stop
from shared.wire.topic import TopicSpec

EVENTS: Final = 200
EVERY_SEC: Final = 0.02
TOPIC: Final = "bench-events"
_INSERT: Final = "INSERT INTO ulak.outbox (topic, payload) VALUES ($1, $2)"


@dataclass
class Reader:
    """A consumer of its own thread that notes when each payload came."""

    kafka: KafkaSettings
    arrived: dict[bytes, float] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.kafka.bootstrap_servers,
                "group.id": self.kafka.names.full("bench-reader"),
                "fetch.wait.max.ms": 500,
            }
        )
        client.assign([confluent_kafka.TopicPartition(self.kafka.names.full(TOPIC), 0, 0)])
        try:
            while not self._stop.is_set():
                message = client.poll(0.1)
                if message is not None and message.error() is None:
                    self.arrived.setdefault(message.value() or b"", time.perf_counter())
        finally:
            client.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run, name="bench-reader")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


@dataclass(frozen=True, slots=True)
class Stage:
    shop: Pool
    producer: Producer
    reader: Reader

    async def through_outbox(self, event: bytes) -> None:
        await self.shop.execute(_INSERT, TOPIC, event)

    async def directly(self, event: bytes) -> None:
        await self.producer.publish([Record(TOPIC, None, event)])

    async def measure(self, send: Callable[[bytes], Awaitable[None]], *, from_start: bool) -> list[float]:
        """Seconds from each send (its start, or its return: the commit) to its arrival, rising."""
        started: dict[bytes, float] = {}
        for _ in range(EVENTS):
            event = secrets.token_bytes(150)
            before = time.perf_counter()
            await send(event)
            started[event] = before if from_start else time.perf_counter()
            await asyncio.sleep(EVERY_SEC)
        deadline = time.perf_counter() + 10
        while not started.keys() <= self.reader.arrived.keys():
            if time.perf_counter() > deadline:
                missing = len(started.keys() - self.reader.arrived.keys())
                raise WrongResultError(f"{missing} of {EVENTS} events never came")
            await asyncio.sleep(0.01)
        return sorted(self.reader.arrived[event] - at for event, at in started.items())


async def figure(stage: Stage) -> Sample:
    begun = time.perf_counter()
    woken = await stage.measure(stage.through_outbox, from_start=False)
    seconds = time.perf_counter() - begun
    await stage.shop.execute("ALTER TABLE ulak.outbox DISABLE TRIGGER outbox_notify")
    polled = await stage.measure(stage.through_outbox, from_start=False)
    await stage.shop.execute("ALTER TABLE ulak.outbox ENABLE TRIGGER outbox_notify")
    note = f"p99 {woken[int(EVENTS * 0.99)] * 1000:.1f} ms; polled p50 {statistics.median(polled) * 1000:.1f} ms"
    return Sample(EVENTS, seconds, value=statistics.median(woken), note=note)


async def limit(stage: Stage) -> Sample:
    begun = time.perf_counter()
    times = await stage.measure(stage.directly, from_start=True)
    return Sample(EVENTS, time.perf_counter() - begun, value=statistics.median(times))


@contextmanager
def shop_database(server: str) -> Iterator[str]:
    """A producer's own database with `ulak outbox ddl` applied."""
    name = f"bench_shop_{secrets.token_hex(5)}"
    dsn = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        with psycopg.connect(dsn, autocommit=True) as own:
            own.execute(producer.ddl().encode())
        try:
            yield dsn
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


async def _ready(producer: Producer) -> bool:
    return producer.ready()


@asynccontextmanager
async def open_stage(servers: Servers) -> AsyncIterator[Pair]:
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"bench{secrets.token_hex(4)}-")
    await apply(kafka, [TopicSpec(TOPIC, 1, 3_600_000)])
    reader = Reader(kafka)

    async def topics() -> frozenset[str]:
        return frozenset({TOPIC})

    with scratch_database(servers.postgres_dsn) as own, shop_database(servers.postgres_dsn) as shop, reader.reading():
        async with (
            open_pool(PostgresSettings(dsn=own), name="bench", size=2) as index,
            open_pool(PostgresSettings(dsn=shop), name="bench shop", size=2) as shop_pool,
            Producer.open(kafka, name="bench") as producer,
        ):
            await until(partial(_ready, producer), timeout_sec=30, what="the broker's answer")
            rings = FixedRingSource(RING)
            ways = Ways(producer, TopicDirectory(topics, declared=()), Opener(rings, clock=time.monotonic), index=index)
            source = ForeignSource(
                SourceSpec("shop", shop, "shop"),
                RelaySettings(),
                PostgresSettings(dsn=own),
                partial(reading_loops, settings=RelaySettings(), critical=ways, others=ways),
            )
            stop = Stop()
            running = asyncio.create_task(source.run(stop))
            stage = Stage(shop_pool, producer, reader)
            await stage.measure(stage.through_outbox, from_start=False)  # connections, statements, caches
            yield Pair(lambda: figure(stage), lambda: limit(stage))
            stop.request()
            await running


BENCH: Final = Bench(name="relay-latency", unit="s (p50)", first=5.0, goal=2.0, open=open_stage, smaller_is_better=True)
