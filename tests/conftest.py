"""Servers and values that tests share. Each server is the one its ULAK_* setting names, or an embedded one of our own.

Nothing here is shared between tests but the servers: every test has its own database, topic prefix and key prefix.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
from redis.asyncio import Redis

from ops.dev.environment import SERVER_SETTINGS
from ops.dev.servers import running
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.migrate import migrate
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings


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
def template_database(postgres_server: str) -> Iterator[str]:
    """Name of a migrated database that is copied for each test; nobody connects to it."""
    name = f"ulak_template_{secrets.token_hex(4)}"
    _create_database(postgres_server, name)
    migrate(_with_database(postgres_server, name))
    yield name
    _drop_database(postgres_server, name)


@pytest.fixture
def database(postgres_server: str, template_database: str) -> Iterator[str]:
    """DSN of a fresh, migrated database with partitions from yesterday to a week ahead."""
    name = f"ulak_test_{secrets.token_hex(6)}"
    _create_database(postgres_server, name, template=template_database)
    yield _with_database(postgres_server, name)
    _drop_database(postgres_server, name)


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


def _with_database(server: str, name: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def _create_database(server: str, name: str, *, template: str = "template1") -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())


def _drop_database(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
