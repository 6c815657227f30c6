"""Servers and values that tests share. Each server is the one its ULAK_* setting names, or an embedded one of our own.

Nothing here is shared between tests but the servers: every test has its own database, topic prefix and key prefix.
"""

import os
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest
from hypothesis import settings
from redis.asyncio import Redis
from xdist.remote import Producer

from ops.dev.environment import SERVER_SETTINGS
from ops.dev.servers import running
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.migrate import migrate
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from tests.databases import Databases, databases_of, fill_for_producer
from tests.schedule import FolderScheduling


def pytest_configure() -> None:
    # Whoever runs us in the background makes us ignore Ctrl-C, and so would every process that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("any-machine", deadline=None)  # no property is about time, and machines may be slow
    settings.load_profile("any-machine")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    return FolderScheduling(config, log)


class Servers:
    """Addresses of real servers: external ones by their setting, else embedded ones, started when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._addresses: dict[str, str] = {}

    def address(self, kind: str) -> str:
        if kind not in self._addresses:
            external = os.environ.get(SERVER_SETTINGS[kind])
            if external:
                self._addresses[kind] = external
            else:
                started = self._stack.enter_context(running(self._folder / kind, which={kind}, durable=False))
                self._addresses[kind] = started.addresses[kind]
        return self._addresses[kind]

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    found = Servers(tmp_path_factory.mktemp("servers"))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def postgres_server(servers: Servers) -> str:
    """DSN of a PostgreSQL server on which databases may be created."""
    return servers.address("postgres")


@pytest.fixture(scope="session")
def redis_url(servers: Servers) -> str:
    return servers.address("valkey")


@pytest.fixture(scope="session")
def kafka_bootstrap(servers: Servers) -> str:
    return servers.address("kafka")


@pytest.fixture(scope="session")
def databases(postgres_server: str) -> Iterator[Databases]:
    """Of Ulak itself, with partitions from yesterday to a week ahead."""
    with databases_of(postgres_server, migrate) as found:
        yield found


@pytest.fixture(scope="session")
def producer_databases(postgres_server: str) -> Iterator[Databases]:
    """Of a service that has nothing of Ulak in it but what `ulak outbox ddl` prints, run twice."""
    with databases_of(postgres_server, fill_for_producer) as found:
        yield found


@pytest.fixture(scope="session")
def template_database(databases: Databases) -> str:
    """Name of a migrated database that may be copied; nobody connects to it."""
    return databases.template


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """DSN of a migrated database that is empty, with partitions from yesterday to a week ahead."""
    with databases.one() as dsn:
        yield dsn


@pytest.fixture
async def pool(database: str) -> AsyncIterator[asyncpg.Pool]:
    async with open_pool(PostgresSettings(dsn=database), name="test", size=8) as opened:
        yield opened


@pytest.fixture
def key_prefix() -> str:
    """Start of every Redis key of this test."""
    return f"test-{secrets.token_hex(6)}:"


@pytest.fixture
async def redis_client(redis_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def kafka_settings(kafka_bootstrap: str) -> KafkaSettings:
    """Settings whose topic prefix (and so groups) no other test has."""
    return KafkaSettings(bootstrap_servers=kafka_bootstrap, topic_prefix=f"t{secrets.token_hex(5)}-")


@pytest.fixture
def key_ring() -> KeyRing:
    return KeyRing(active="k1", keys={"k1": bytes(range(32))}, lookup_key=bytes(range(32, 64)))


@pytest.fixture
def now() -> datetime:
    """A present moment for tests against real tables, whose partitions are of today."""
    return datetime.now(UTC)
