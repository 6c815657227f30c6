"""What the ingest benches need: a database and topics of their own, a key, and the service as a process."""

import asyncio
import hashlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg
import orjson

from bench.harness import Servers
from bench.scratch import RING, scratch_database
from shared.core.identifier import new_id
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.postgres.pool import open_pool
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import ring_json
from shared.wire.topic import declared_topics

PARAMS = {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/98213"}
USERS = 5000


@dataclass(frozen=True, slots=True)
class Stack:
    """A running service and what it writes to."""

    port: int
    secret: str
    pid: int
    pool: asyncpg.Pool

    async def stored(self, run: str) -> int:
        """Notifications of one run; their event ids begin with its name."""
        count: int = await self.pool.fetchval(
            "SELECT count(*) FROM ulak.notifications WHERE event_id LIKE $1", f"{run}-%"
        )
        return count

    async def settled(self, run: str) -> None:
        """Wait until everything of the run is on Kafka and its outbox rows are gone: it is part of the work."""
        deadline = asyncio.get_running_loop().time() + 30
        while await self.pool.fetchval("SELECT count(*) FROM ulak.outbox"):
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"outbox rows of {run} are left after 30 s")
            await asyncio.sleep(0.05)


def body(run: str, number: int) -> bytes:
    """The seed's request, with a key of its own and one of 5,000 users."""
    return orjson.dumps(item(run, number))


def item(run: str, number: int) -> dict[str, object]:
    return {"eventId": f"{run}-{number}", "userId": number % USERS, "type": "ORDER_SHIPPED", "params": PARAMS}


@asynccontextmanager
async def ingest_stack(
    servers: Servers, surface: str = "general", settings: Mapping[str, str] | None = None
) -> AsyncIterator[Stack]:
    """Everything up for the length of the block, and gone after it."""
    kafka = KafkaSettings(bootstrap_servers=servers.kafka_bootstrap, topic_prefix=f"b{secrets.token_hex(4)}-")
    await apply(kafka, [spec for spec in declared_topics(max_partitions=2) if "requests" in spec.name])
    with scratch_database(servers.postgres_dsn) as dsn:
        async with open_pool(PostgresSettings(dsn=dsn), name="bench", size=4) as pool:
            secret = await _fill(pool)
            with _service(dsn, kafka, surface, settings or {}) as (pid, port):
                await listening(port)
                yield Stack(port, secret, pid, pool)


@contextmanager
def _service(dsn: str, kafka: KafkaSettings, surface: str, settings: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    port = free_port()
    environment = os.environ | {
        **settings,
        "ULAK_POSTGRES_DSN": dsn,
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "ULAK_KEY_RING": ring_json(RING).decode(),
        "ULAK_HTTP_PORT": str(port),
        "ULAK_HEALTH_PORT": str(free_port()),
        "ULAK_LOG_LEVEL": "WARNING",
    }
    with process([sys.executable, "-m", "services.ingest", "--surface", surface], environment) as pid:
        yield pid, port


@contextmanager
def process(command: list[str], environment: dict[str, str] | None = None) -> Iterator[int]:
    """A child for the length of the block; its pid."""
    child = subprocess.Popen(command, env=environment)
    try:
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def _fill(pool: asyncpg.Pool) -> str:
    secret = f"ulak_live_{secrets.token_urlsafe(32)}"
    await pool.execute("INSERT INTO ulak.applications (name) VALUES ('bench')")
    await pool.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes) "
        "SELECT $1, id, 'bench', $2, 'live', '{all}' FROM ulak.applications",
        new_id(),
        hashlib.sha256(secret.encode()).digest(),
    )
    await pool.execute(
        "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
        "VALUES ('ORDER_SHIPPED', 'TRANSACTIONAL', 1, '{PUSH,EMAIL}', 86400)"
    )
    for channel, parts in (
        ("PUSH", {"title": "Kargoda", "body": "{{ orderNo }}"}),
        ("EMAIL", {"subject": "s", "text": "t"}),
    ):
        await pool.execute(
            "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
            "VALUES ('ORDER_SHIPPED', $1, 'tr', 1, $2, $3, '', true)",
            channel,
            parts,
            list(PARAMS),
        )
    await pool.execute(
        "INSERT INTO ulak.recipients (external_id) SELECT n::text FROM generate_series(0, $1) n", USERS - 1
    )
    return secret


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def listening(port: int) -> None:
    """Return when something accepts connections on the port."""
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
