import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import shared.postgres
from services.relay.outbox import OutboxReader, Source
from services.relay.topics import TopicDirectory
from shared.kafka.memory import InMemoryProducer
from shared.kafka.record import Publisher
from shared.postgres.pool import Pool, open_pool
from shared.postgres.settings import PostgresSettings
from shared.wire.channel import MessageClass

MakeReader = Callable[..., OutboxReader]


@pytest.fixture
def broker() -> InMemoryProducer:
    return InMemoryProducer(topics=["orders", "notification-requests-tx", "push-tx", "delivery-events"])


@pytest.fixture
def make_reader(pool: Pool) -> MakeReader:
    """A reader of one class (tx) of the test's own outbox, in batches of 10, always scanning from the oldest row on."""

    async def topics() -> frozenset[str]:
        return frozenset({"orders", "domain-events"})

    def make(
        publisher: Publisher,
        *,
        source: Source | None = None,
        message_class: MessageClass = MessageClass.TX,
        batch: int = 10,
        full_scan_sec: float = 0.0,
    ) -> OutboxReader:
        return OutboxReader(
            source or Source("own", pool),
            message_class,
            publisher=publisher,
            topics=TopicDirectory(topics, declared=["domain-events"]),
            index=pool,
            batch=batch,
            drains=2,
            full_scan_sec=full_scan_sec,
        )

    return make


@pytest.fixture
def foreign_database(postgres_server: str) -> Iterator[str]:
    """DSN of a producer's own database, with nothing of Ulak in it but what `ulak outbox ddl` prints, run twice."""
    name = f"shop_{secrets.token_hex(6)}"
    dsn = urlunsplit(urlsplit(postgres_server)._replace(path=f"/{name}"))
    ddl = (Path(shared.postgres.__path__[0]) / "outbox.sql").read_bytes()
    with psycopg.connect(postgres_server, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(ddl)
            connection.execute(ddl)
        yield dsn
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.fixture
async def foreign_pool(foreign_database: str) -> AsyncIterator[Pool]:
    async with open_pool(PostgresSettings(dsn=foreign_database), name="shop", size=4) as opened:
        yield opened
