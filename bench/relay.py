"""Outbox rows a second: committed -> claimed -> acknowledged by the broker -> gone from the outbox. One process.

The limit is the idempotent producer alone with the same payloads in equal batches, as many in flight.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import confluent_kafka

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError, until
from bench.scratch import RING, scratch_database
from services.relay.opener import Opener
from services.relay.ordered import OrderedReader
from services.relay.outbox import OutboxReader
from services.relay.publication import Publication, Ways
from services.relay.settings import RelaySettings
from services.relay.topics import TopicDirectory
from shared.core.identifier import new_id
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import MessageClass
from shared.wire.topic import TopicSpec

ROWS: Final = 60_000
TOPIC: Final = "bench-events"
PARTITIONS: Final = 2
PAYLOAD: Final = (b'{"specversion":"1.0","type":"OrderShipped","source":"/shop","data":{"orderNo":"98213"}}' * 4)[:300]


@dataclass(frozen=True, slots=True)
class Stage:
    pool: Pool
    kafka: KafkaSettings
    producer: Producer
    relay: RelaySettings

    async def commit_rows(self, *, ordered: bool) -> None:
        """ROWS due rows, committed, each of its own key."""
        now = datetime.now(UTC)
        await self.pool.copy_records_to_table(
            "outbox",
            schema_name="ulak",
            columns=("id", "message_class", "topic", "key", "payload", "headers", "available_at", "ordered"),
            records=[
                (new_id(), int(MessageClass.TX), TOPIC, str(number).encode(), PAYLOAD, {}, now, ordered)
                for number in range(ROWS)
            ],
        )

    def written(self) -> int:
        """Messages on the topic so far."""
        client = confluent_kafka.Consumer({"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "bench"})
        try:
            full = self.kafka.names.full(TOPIC)
            places = [confluent_kafka.TopicPartition(full, number) for number in range(PARTITIONS)]
            return sum(client.get_watermark_offsets(place)[1] for place in places)
        finally:
            client.close()


async def drained(stage: Stage, *, keeps: bool = True, ordered: bool = False) -> float:
    """Seconds to drain one class of one outbox with the relay's own defaults."""
    await stage.commit_rows(ordered=ordered)
    before = await asyncio.to_thread(stage.written)

    async def topics() -> frozenset[str]:
        return frozenset({TOPIC})

    ways = Ways(
        stage.producer,
        TopicDirectory(topics, declared=()),
        Opener(FixedRingSource(RING), clock=time.monotonic),
        index=stage.pool,
    )
    publication = Publication("bench", MessageClass.TX, ways, keeps=keeps)
    batch, full_scan_sec = stage.relay.batch, stage.relay.full_scan_sec
    reader: OutboxReader | OrderedReader = (
        OrderedReader(stage.pool, MessageClass.TX, publication, batch=batch, full_scan_sec=full_scan_sec)
        if ordered
        else OutboxReader(
            stage.pool,
            MessageClass.TX,
            publication,
            batch=batch,
            drains=stage.relay.drains,
            full_scan_sec=full_scan_sec,
        )
    )
    started = time.perf_counter()
    while await reader.round():
        pass
    seconds = time.perf_counter() - started
    left = await stage.pool.fetchval("SELECT count(*) FROM ulak.outbox")
    written = await asyncio.to_thread(stage.written) - before
    if left or written != ROWS:
        raise WrongResultError(f"{written} messages and {left} rows left of {ROWS}")
    await stage.pool.execute("TRUNCATE ulak.outbox_published")
    return seconds


async def figure(stage: Stage) -> Sample:
    """A source's outbox, which keeps what was published; in the note our own, which does not, and ordered rows. CPU is
    the mean of the three.
    """
    kept = await drained(stage)
    own = await drained(stage, keeps=False)
    ordered = await drained(stage, ordered=True)
    note = f"not kept {ROWS / own:,.0f}; ordered, a key each {ROWS / ordered:,.0f}"
    return Sample(3 * ROWS, kept + own + ordered, value=ROWS / kept, note=note)


async def limit(stage: Stage) -> Sample:
    """The same records, all in memory, in batches of the same size, as many in flight."""
    batch = stage.relay.batch
    records = [Record(TOPIC, str(number).encode(), PAYLOAD, []) for number in range(ROWS)]
    batches = iter([records[start : start + batch] for start in range(0, ROWS, batch)])

    async def publish() -> None:
        for each in batches:
            await stage.producer.publish(each)

    before = await asyncio.to_thread(stage.written)
    started = time.perf_counter()
    await asyncio.gather(*(publish() for _ in range(stage.relay.drains)))
    seconds = time.perf_counter() - started
    if (written := await asyncio.to_thread(stage.written) - before) != ROWS:
        raise WrongResultError(f"{written} messages of {ROWS}")
    return Sample(ROWS, seconds)


async def _ready(producer: Producer) -> bool:
    return producer.ready()


@asynccontextmanager
async def open_stage(servers: Servers) -> AsyncIterator[Pair]:
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"bench{secrets.token_hex(4)}-")
    await apply(kafka, [TopicSpec(TOPIC, PARTITIONS, 3_600_000)])
    with scratch_database(servers.postgres_dsn) as dsn:
        async with (
            open_pool(PostgresSettings(dsn=dsn), name="bench", size=4) as pool,
            Producer.open(kafka, name="bench") as producer,
        ):
            await until(partial(_ready, producer), timeout_sec=30, what="the broker's answer")
            stage = Stage(pool, kafka, producer, RelaySettings())
            yield Pair(lambda: figure(stage), lambda: limit(stage))


BENCH: Final = Bench(name="relay", unit="rows/s", first=0.15, goal=0.4, open=open_stage)
