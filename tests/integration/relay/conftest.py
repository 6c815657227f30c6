import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from services.relay.opener import Opener
from services.relay.ordered import OrderedReader
from services.relay.outbox import OutboxReader
from services.relay.publication import Publication, Ways
from services.relay.topics import TopicDirectory
from shared.core.sealing import KeyRing
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Publisher
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.postgres.source import OWN
from shared.runtime.keyring import FixedRingSource, RingSource
from shared.wire.channel import MessageClass
from shared.wire.topic import TopicSpec, declared_topics
from tests.databases import Databases
from tests.integration.kafka.harness import HOUR_MS

MakeReader = Callable[..., OutboxReader]
MakeOrderedReader = Callable[..., OrderedReader]
MakePublication = Callable[..., Publication]


@pytest.fixture
def broker() -> InMemoryProducer:
    return InMemoryProducer(
        topics=["orders", "notification-requests-tx", "notification-requests-bulk", "push-tx", "delivery-events"]
    )


@pytest.fixture
async def kafka(kafka_settings: KafkaSettings) -> KafkaSettings:
    """The topics these tests need, of one partition each."""
    needed = {"notification-requests-tx", "push-tx", "delivery-events", "domain-events"}
    specs = [TopicSpec(spec.name, 1, spec.retention_ms) for spec in declared_topics() if spec.name in needed]
    await apply(kafka_settings, [*specs, TopicSpec("orders", 1, HOUR_MS)])
    return kafka_settings


@pytest.fixture
def rings(key_ring: KeyRing) -> FixedRingSource:
    return FixedRingSource(key_ring)


@pytest.fixture
def make_publication(pool: Pool, rings: FixedRingSource) -> MakePublication:
    """How one class (tx) of the test's own outbox, or of the source of that name, is published.

    leave_sec: how long it leaves to others what is sealed under keys that it lacks.
    """
    tests_rings = rings

    async def topics() -> frozenset[str]:
        return frozenset({"orders", "domain-events"})

    def make(
        publisher: Publisher,
        *,
        source: str = OWN,
        message_class: MessageClass = MessageClass.TX,
        rings: RingSource = tests_rings,
        keeps: bool = False,
        leave_sec: float = 0.0,
    ) -> Publication:
        directory = TopicDirectory(topics, declared=["domain-events"])
        ways = Ways(publisher, directory, Opener(rings, clock=time.monotonic, leave_sec=leave_sec), index=pool)
        return Publication(source, message_class, ways, keeps=keeps)

    return make


@pytest.fixture
def make_reader(pool: Pool, make_publication: MakePublication) -> MakeReader:
    """A reader of one class (tx) of the test's own outbox, in batches of 10, always scanning from the oldest row on."""
    tests_pool = pool

    def make(
        publisher: Publisher,
        *,
        pool: Pool = tests_pool,
        message_class: MessageClass = MessageClass.TX,
        batch: int = 10,
        full_scan_sec: float = 0.0,
        **publication: Any,
    ) -> OutboxReader:
        return OutboxReader(
            pool,
            message_class,
            make_publication(publisher, message_class=message_class, **publication),
            batch=batch,
            drains=2,
            full_scan_sec=full_scan_sec,
        )

    return make


@pytest.fixture
def make_ordered(pool: Pool, make_publication: MakePublication) -> MakeOrderedReader:
    """The same for rows that ask for the order of their key."""
    tests_pool = pool

    def make(
        publisher: Publisher,
        *,
        pool: Pool = tests_pool,
        batch: int = 10,
        full_scan_sec: float = 0.0,
        **publication: Any,
    ) -> OrderedReader:
        return OrderedReader(
            pool, MessageClass.TX, make_publication(publisher, **publication), batch=batch, full_scan_sec=full_scan_sec
        )

    return make


@pytest.fixture
def foreign_database(producer_databases: Databases) -> Iterator[str]:
    """DSN of a producer's own database."""
    with producer_databases.one() as dsn:
        yield dsn


@pytest.fixture
async def foreign_pool(foreign_database: str) -> AsyncIterator[Pool]:
    async with open_pool(PostgresSettings(dsn=foreign_database), name="shop", size=4) as opened:
        yield opened
