"""Notifications decided a second: hints from Kafka, all facts, the whole chain, rendered, sealed, rows and lanes.

One in five is marketing: its consents are read, its quiet hours looked at, its places in the users' days reserved in
Redis. One in two has a business key, whose window is claimed. There are preferences, and suppressions of others.
The limit writes the same rows (COPY, one transaction per batch) and produces the same messages, decides nothing and
reads no hint. Both work in batches of 500, two in flight, in one process.
"""

import asyncio
import itertools
import os
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import confluent_kafka
import orjson
from redis.asyncio import Redis

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError, until
from bench.scratch import RING, scratch_database
from services.router.content import Writer
from services.router.decider import Decider
from services.router.frequency import Frequency
from services.router.plan import Planner
from services.router.requests import RequestHandler
from services.router.store import RouterStore
from shared.content.render import Renderer
from shared.core.address import parse_email
from shared.core.catalogue import NotificationType
from shared.core.consent import user_subject
from shared.core.identifier import new_id
from shared.core.quiet_hours import QuietHours
from shared.core.sealing import Purpose, seal
from shared.facts.store import FactStore
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.producer import Producer
from shared.kafka.record import Received, Record, Rejection
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.catalogue_write import Push, push_catalogue
from shared.postgres.notification_type import NewType
from shared.postgres.pool import Pool, open_pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.recipient import DeviceProfile, PreferenceProfile, RecipientProfile, push_recipients
from shared.postgres.settings import PostgresSettings
from shared.postgres.template import NewTemplate
from shared.redis_store.cap import FrequencyCaps
from shared.redis_store.client import open_redis
from shared.redis_store.settings import RedisSettings
from shared.runtime.garbage import collect_rarely
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import DEFAULT_CHANNELS, Category, MessageClass
from shared.wire.message import DeliveryHint, RequestHint, decode, encode
from shared.wire.topic import ROUTER_DLQ, TopicSpec, notification_requests

NOTIFICATIONS: Final = 10_000
BATCH: Final = 500
IN_FLIGHT: Final = 2
USERS: Final = 5_000
ZONE: Final = "Europe/Istanbul"
TARGETS: Final = 3
"""Deliveries of one notification: two devices and an e-mail address."""
MARKETING_EVERY: Final = 5
KEYED_EVERY: Final = 2
SUPPRESSIONS: Final = 10_000
PARAMS: Final = {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/takip/98213"}
REQUESTS: Final = notification_requests(MessageClass.TX)
LANES: Final = ("push-tx", "email-tx")
SHIPPED: Final = NotificationType(
    "ORDER_SHIPPED", Category.TRANSACTIONAL, MessageClass.TX, ("PUSH", "EMAIL"), timedelta(hours=12)
)
_SOON: Final = datetime.now(ZoneInfo(ZONE)) + timedelta(hours=6)
SALE: Final = NotificationType(
    "WINTER_SALE",
    Category.MARKETING,
    MessageClass.TX,
    ("PUSH", "EMAIL"),
    timedelta(hours=12),
    quiet_hours=QuietHours(_SOON.time(), (_SOON + timedelta(hours=1)).time()),
)
_TEXT: Final = "{{ orderNo }} numaralı siparişiniz {{ carrier }} ile yola çıktı. {{ trackingUrl }}"
CATALOGUE: Final = Push(
    types=(NewType(SHIPPED), NewType(SALE)),
    templates=tuple(
        NewTemplate(found.name, channel, "tr", {first: "Yolda", second: _TEXT}, frozenset(PARAMS))
        for found in (SHIPPED, SALE)
        for channel, first, second in (("PUSH", "title", "body"), ("EMAIL", "subject", "text"))
    ),
)
_NOTIFICATION_COLUMNS: Final = (
    *("id", "application_id", "event_id", "user_id", "type", "message_class", "mode", "state", "params_sealed"),
    *("business_key", "expires_at", "created_at"),
)

_runs = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Stage:
    """Database, topics and clients; users in it have two devices, an address and a preference each."""

    pool: Pool
    kafka: KafkaSettings
    producer: Producer
    redis: Redis
    key_prefix: str
    users: Sequence[int]

    async def accept(self) -> list[UUID]:
        """NOTIFICATIONS rows as ingest leaves them."""
        now = datetime.now(UTC)
        ids = [new_id() for _ in range(NOTIFICATIONS)]
        plain = orjson.dumps(PARAMS)
        await self.pool.copy_records_to_table(
            "notifications",
            schema_name="ulak",
            columns=_NOTIFICATION_COLUMNS,
            records=[
                (
                    *(id_, 1, str(id_), self.users[number % USERS], _type(number).name, 1, "live", "ACCEPTED"),
                    *(seal(RING, Purpose.PARAMS, id_.bytes, plain), _business_key(number, id_)),
                    *(now + timedelta(hours=12), now),
                )
                for number, id_ in enumerate(ids)
            ],
        )
        return ids

    def produced(self) -> int:
        """Messages on the lanes so far."""
        client = confluent_kafka.Consumer(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "bench-watermarks"}
        )
        try:
            partitions = [
                confluent_kafka.TopicPartition(self.kafka.names.full(topic), number)
                for topic in LANES
                for number in range(2)
            ]
            return sum(client.get_watermark_offsets(partition)[1] for partition in partitions)
        finally:
            client.close()

    async def check(self, ids: Sequence[UUID], produced: int) -> None:
        """Every notification decided, three deliveries each, and one message for each of them."""
        decided = await self.pool.fetchval(
            "SELECT count(*) FROM ulak.notifications WHERE id BETWEEN $1 AND $2 AND state = 'DECIDED'", ids[0], ids[-1]
        )
        deliveries = await self.pool.fetchval(
            "SELECT count(*) FROM ulak.deliveries WHERE notification_id BETWEEN $1 AND $2 AND status = 'PENDING'",
            ids[0],
            ids[-1],
        )
        wanted = NOTIFICATIONS * TARGETS
        if (decided, deliveries, produced) != (NOTIFICATIONS, wanted, wanted):
            raise WrongResultError(
                f"{decided} decided, {deliveries} deliveries, {produced} messages; due were {wanted}"
            )


def _type(number: int) -> NotificationType:
    return SALE if number % MARKETING_EVERY == 0 else SHIPPED


def _business_key(number: int, id_: UUID) -> str | None:
    return str(id_) if number % KEYED_EVERY == 0 else None


async def figure(stage: Stage) -> Sample:
    """From the first batch handed out to the last one committed and acknowledged."""
    ids = await stage.accept()
    before = await asyncio.to_thread(stage.produced)
    hints = [encode(RequestHint(id_)) for id_ in ids]
    await stage.producer.publish(
        [Record(REQUESTS, id_.bytes, value, headers) for id_, (value, headers) in zip(ids, hints, strict=True)]
    )
    handler = _handler(stage)
    mine = frozenset(ids)
    done = 0
    started = ended = 0.0

    async def timed(batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
        nonlocal done, started, ended
        own = [received for received in batch if received.value.notification_id in mine]
        if not own:
            return []
        started = started or time.perf_counter()
        rejections = await handler(own)
        ended = time.perf_counter()
        done += len(own)
        return rejections

    consumer = Consumer(
        stage.kafka,
        group=f"bench-{next(_runs)}",
        topics=[REQUESTS],
        decode=lambda value, _headers: decode(RequestHint, value),
        handle=timed,
        dead_letters=DeadLetterWriter(stage.producer, dlq_topic=ROUTER_DLQ, service_version=version("ulak")),
        batch_size=BATCH,
        max_in_flight=IN_FLIGHT,
    )
    running = asyncio.create_task(consumer.run())

    async def all_done() -> bool:
        return done >= NOTIFICATIONS

    await until(all_done, timeout_sec=120, what="the last decision")
    await consumer.stop()
    await running
    await stage.check(ids, await asyncio.to_thread(stage.produced) - before)
    return Sample(NOTIFICATIONS, ended - started)


def _handler(stage: Stage) -> RequestHandler:
    decider = Decider(
        FactStore(stage.pool, DEFAULT_CHANNELS, FixedRingSource(RING), PreferenceCache(), default_zone=ZONE),
        CatalogueCache(stage.pool),
        Writer(FixedRingSource(RING), Renderer()),
        Frequency(FrequencyCaps(stage.redis, stage.key_prefix), stage.pool, default_zone=ZONE),
        Planner(DEFAULT_CHANNELS),
        DEFAULT_CHANNELS,
        "tr",
    )
    return RequestHandler(RouterStore(stage.pool), decider, stage.producer, DEFAULT_CHANNELS, lambda: datetime.now(UTC))


async def limit(stage: Stage) -> Sample:
    """The same rows and messages, prepared beforehand, in equal batches, two in flight."""
    ids = await stage.accept()
    before = await asyncio.to_thread(stage.produced)
    batches = [_bare_batch(ids[start : start + BATCH], start, stage.users) for start in range(0, len(ids), BATCH)]
    gate = asyncio.Semaphore(IN_FLIGHT)
    started = time.perf_counter()
    await asyncio.gather(*(_write_bare(stage, batch, gate) for batch in batches))
    seconds = time.perf_counter() - started
    await stage.check(ids, await asyncio.to_thread(stage.produced) - before)
    return Sample(NOTIFICATIONS, seconds)


@dataclass(frozen=True, slots=True)
class _Bare:
    ids: Sequence[UUID]
    tables: Sequence[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]
    records: list[Record]


def _bare_batch(ids: Sequence[UUID], start: int, users: Sequence[int]) -> _Bare:
    now = datetime.now(UTC)
    deliveries: list[tuple[Any, ...]] = []
    contents: list[tuple[Any, ...]] = []
    log: list[tuple[Any, ...]] = []
    records: list[Record] = []
    windows: list[tuple[Any, ...]] = []
    for number, id_ in enumerate(ids, start):
        marketing = _type(number) is SALE
        business_key = _business_key(number, id_)
        if business_key is not None:
            windows.append((_type(number).name, users[number % USERS], business_key, id_, now + timedelta(hours=24)))
        for channel, promise in (("EMAIL", "AT_LEAST_ONCE"), ("PUSH", "AT_LEAST_ONCE"), ("PUSH", "AT_LEAST_ONCE")):
            key = os.urandom(32)
            deliveries.append(
                (
                    *(id_, channel, key, os.urandom(100), "IOS", "", "PENDING", None, 1, promise, "live", now, None),
                    *(now + timedelta(hours=12), now, now, marketing, now + timedelta(hours=6) if marketing else None),
                )
            )
            value, headers = encode(DeliveryHint(id_, channel, key, 0, MessageClass.TX))
            topic = DEFAULT_CHANNELS.spec(channel).lane(MessageClass.TX).topic
            records.append(Record(topic, id_.bytes, value, headers))
        for channel in ("EMAIL", "PUSH"):
            contents.append((id_, channel, os.urandom(180), "content-v1", "tr", 1))
            log.append((id_, new_id(), "verdict", channel, b"", "go", None, "category go, preference go, ttl go"))
    deliveries.sort(key=lambda row: row[:3])
    return _Bare(
        ids,
        (
            (
                "deliveries",
                (
                    *("notification_id", "channel", "target_key", "address_sealed", "platform", "app_id", "status"),
                    *("reason", "message_class", "promise", "mode", "next_attempt_at", "last_error", "expires_at"),
                    *("created_at", "updated_at", "marketing", "send_until"),
                ),
                deliveries,
            ),
            ("content_window", ("type", "user_id", "business_key", "notification_id", "until"), windows),
            (
                "contents",
                ("notification_id", "channel", "sealed", "purpose", "locale", "template_version"),
                contents,
            ),
            (
                "delivery_log",
                ("notification_id", "id", "kind", "channel", "target_key", "result", "reason", "detail"),
                log,
            ),
        ),
        records,
    )


async def _write_bare(stage: Stage, batch: _Bare, gate: asyncio.Semaphore) -> None:
    async with gate:
        async with stage.pool.acquire() as connection, connection.transaction():
            await connection.execute(
                "UPDATE ulak.notifications SET state = 'DECIDED' WHERE id = ANY($1::uuid[]) AND id BETWEEN $2 AND $3",
                batch.ids,
                batch.ids[0],
                batch.ids[-1],
            )
            for table, columns, rows in batch.tables:
                await connection.copy_records_to_table(table, schema_name="ulak", columns=columns, records=rows)
        await stage.producer.publish(batch.records)


@asynccontextmanager
async def opened(servers: Servers) -> AsyncIterator[Pair]:
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"b{secrets.token_hex(4)}-")
    await apply(kafka, [TopicSpec(name, 2, 3_600_000) for name in (REQUESTS, *LANES, ROUTER_DLQ)])
    with scratch_database(servers.postgres_dsn) as dsn:
        async with (
            open_pool(PostgresSettings(dsn=dsn), name="bench", size=4) as pool,
            Producer.open(kafka, name="bench") as producer,
            open_redis(RedisSettings(url=servers.redis_url)) as redis,
        ):
            yield await _pair(pool, kafka, producer, redis)


async def _pair(pool: Pool, kafka: KafkaSettings, producer: Producer, redis: Redis) -> Pair:
    async with pool.acquire() as connection, connection.transaction():
        await push_catalogue(connection, CATALOGUE)
    profiles = [
        RecipientProfile(
            str(number),
            email=parse_email(f"user{number}@example.com"),
            locale="tr-TR",
            time_zone="Europe/Istanbul",
            devices=(DeviceProfile(f"{number:064x}", "IOS"), DeviceProfile(f"fcm-{number}", "ANDROID")),
            preferences=(PreferenceProfile(Category.MARKETING, "SMS", enabled=False),),
        )
        for number in range(USERS)
    ]
    await push_recipients(pool, RING, profiles)
    users = [row["user_id"] for row in await pool.fetch("SELECT user_id FROM ulak.recipients ORDER BY user_id")]
    await _add_facts(pool, users)
    await pool.execute("ANALYZE")
    collect_rarely()  # as a service does when it starts
    key_prefix = f"bench-{secrets.token_hex(4)}:"
    # A Redis that has kept its keys since before the users' day began.
    await redis.set(f"{key_prefix}cap:epoch", int((time.time() - 3 * 86_400) * 1000), ex=3600)
    stage = Stage(pool, kafka, producer, redis, key_prefix, users)
    return Pair(lambda: figure(stage), lambda: limit(stage))


async def _add_facts(pool: Pool, users: Sequence[int]) -> None:
    """Everybody has consented, and no day is ever full; many others are suppressed."""
    await pool.execute("UPDATE ulak.frequency_caps SET per_day = 1000000")
    await pool.execute(
        "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
        "SELECT subject, 'PUSH', 'MARKETING', true, now(), ulak.uuidv7() FROM unnest($1::bytea[]) AS subject",
        [user_subject(RING, user) for user in users],
    )
    await pool.execute(
        "INSERT INTO ulak.consent_states (subject, channel, purpose, granted, at, consent_id) "
        "SELECT email_key, 'EMAIL', 'MARKETING', true, now(), ulak.uuidv7() FROM ulak.recipients"
    )
    await pool.execute(
        "INSERT INTO ulak.suppressions (channel, address_key, reason) "
        "SELECT 'EMAIL', sha256(n::text::bytea), 'hard_bounce' FROM generate_series(1, $1::int) AS n",
        SUPPRESSIONS,
    )


BENCH: Final = Bench("router-tx", "notifications/s", first=0.25, goal=0.6, open=opened)
