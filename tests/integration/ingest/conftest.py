"""The service itself, on real servers: run in the test's loop on a free port, called over real sockets."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
import httpx
import pytest

from services.ingest.__main__ import Settings, Surfaces, chosen_surfaces, serve
from services.ingest.settings import IngestSettings
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.kafka.settings import KafkaSettings
from shared.postgres.settings import PostgresSettings
from shared.profile.settings import DeviceSettings
from shared.redis_store.settings import RedisSettings
from shared.runtime.keyring import KeyRingSettings, ring_json
from shared.runtime.service import Stop
from shared.runtime.settings import HealthSettings, HttpSettings, LocaleSettings
from tests.integration.plain_http import plain_client
from tests.ports import free_port

TYPES = (
    ("ORDER_SHIPPED", "TRANSACTIONAL", 1, ["PUSH", "EMAIL"], 86_400),
    ("PASSWORD_CHANGED", "SECURITY", 0, ["EMAIL"], 3_600),
    ("OTP", "SECURITY", 0, ["SMS"], 300),
)
TEMPLATES: tuple[tuple[str, str, str, dict[str, str], list[str]], ...] = (
    ("ORDER_SHIPPED", "PUSH", "tr", {"title": "Kargoda", "body": "{{ orderNo }} yolda"}, ["orderNo"]),
    (
        "ORDER_SHIPPED",
        "EMAIL",
        "tr",
        {"subject": "Siparişiniz {{ orderNo }}", "text": "{{ carrier }} {{ trackingUrl }}"},
        ["orderNo", "carrier", "trackingUrl"],
    ),
    ("PASSWORD_CHANGED", "EMAIL", "tr", {"subject": "Parola", "text": "Değişti"}, []),
    ("PASSWORD_CHANGED", "EMAIL", "de", {"subject": "Passwort", "text": "{{ device }}"}, ["device"]),
    ("OTP", "SMS", "tr", {"text": "Kodunuz {{ code }}"}, ["code"]),
    (
        "OTP",
        "SMS",
        "en",
        {"text": "Your code is {{ code }}, for {{ expiresInMinutes }} min"},
        ["code", "expiresInMinutes"],
    ),
)
ORDER = {
    "eventId": "order-98213-SHIPPED",
    "userId": 7,
    "type": "ORDER_SHIPPED",
    "params": {"orderNo": "98213", "carrier": "Kargo A", "trackingUrl": "https://kargo.example/98213"},
}
OTP = {"requestId": "login-1", "phone": "+905321234567", "code": "482913", "expiresInSeconds": 180}

SENDING = (Surfaces.GENERAL, Surfaces.OTP)
"""Without administration, whose routes take longer to make than most tests run."""


def order(**changes: Any) -> dict[str, Any]:
    return {**ORDER, **changes}


def otp(**changes: Any) -> dict[str, Any]:
    return {**OTP, **changes}


@dataclass(frozen=True)
class Ingest:
    """A running service: its address, a client with a key that may do everything, and its database."""

    url: str
    health_url: str
    client: httpx.AsyncClient
    pool: asyncpg.Pool
    kafka: KafkaSettings

    async def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=body, **options)

    async def accept(self, **changes: Any) -> httpx.Response:
        return await self.post("/internal/v1/notifications", order(**changes))

    async def send_code(self, **changes: Any) -> httpx.Response:
        return await self.post("/internal/v1/otp-messages", otp(**changes))


@pytest.fixture
async def catalogue(pool: asyncpg.Pool) -> None:
    for name, category, message_class, channels, ttl in TYPES:
        await pool.execute(
            "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
            "VALUES ($1, $2, $3, $4, $5)",
            name,
            category,
            message_class,
            channels,
            ttl,
        )
    for name, channel, locale, parts, parameters in TEMPLATES:
        await pool.execute(
            "INSERT INTO ulak.templates (type, channel, locale, version, parts, parameters, checksum, active) "
            "VALUES ($1, $2, $3, 1, $4, $5, $6, true)",
            name,
            channel,
            locale,
            parts,
            parameters,
            hashlib.sha256(repr(parts).encode()).digest(),
        )


async def add_key(
    pool: asyncpg.Pool,
    *,
    application: str = "shop",
    kind: str = "live",
    scopes: tuple[str, ...] = ("all",),
    rate: int | None = None,
    expires_at: datetime | None = None,
) -> str:
    """Write a key as `ulak api-keys create` does; its secret."""
    secret = f"ulak_{kind}_{secrets.token_urlsafe(32)}"
    application_id = await pool.fetchval(
        "INSERT INTO ulak.applications (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = $1 RETURNING id",
        application,
    )
    await pool.execute(
        "INSERT INTO ulak.api_keys (id, application_id, name, secret_hash, kind, scopes, rate_per_second, expires_at) "
        "VALUES ($1, $2, 'test', $3, $4, $5, $6, $7)",
        new_id(),
        application_id,
        hashlib.sha256(secret.encode()).digest(),
        kind,
        list(scopes),
        rate,
        expires_at,
    )
    return secret


async def until(holds: Callable[[], Any], *, seconds: float = 20.0) -> Any:
    """Poll until `holds` (plain or async) answers something true; its answer."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        found = holds()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"did not come to hold within {seconds} s")
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(
    database: str,
    kafka: KafkaSettings,
    ring: KeyRing,
    *,
    surfaces: Collection[Surfaces] = SENDING,
    ingest: IngestSettings | None = None,
    key_prefix: str | None = None,
) -> AsyncIterator[tuple[str, str]]:
    """The service in this loop, until the block ends; URLs of its surfaces and its health port.

    Most tests have no topics: publishing fails soon, and the outbox rows stay to be looked at.
    """
    kafka = kafka.model_copy(update={"missing_topic_timeout_ms": 50})
    http = HttpSettings(port=free_port(), drain_sec=5)
    health = HealthSettings(port=free_port())
    settings = Settings(
        ingest=ingest or IngestSettings(key_ttl_sec=0.2, body_timeout_sec=1.0),
        device=DeviceSettings(max_per_user=3),
        locale=LocaleSettings(),
        http=http,
        health=health,
        postgres=PostgresSettings(dsn=database),
        kafka=kafka,
        redis=RedisSettings(key_prefix=key_prefix or f"t{secrets.token_hex(4)}:"),
    )
    stop = Stop()
    task = asyncio.create_task(
        serve(settings, chosen_surfaces(surfaces), KeyRingSettings(ring=ring_json(ring).decode()), stop)
    )
    url = f"http://127.0.0.1:{http.port}"

    async def answers() -> bool:
        if task.done():
            task.result()
        try:
            async with plain_client() as client:
                await client.get(url)
        except httpx.TransportError:
            return False
        return True

    await until(answers)
    try:
        yield url, f"http://127.0.0.1:{health.port}"
    finally:
        stop.request()
        await task


@pytest.fixture
def surfaces() -> Collection[Surfaces]:
    """What the service of `ingest` serves. Tests of administration say that they need it too."""
    return SENDING


@pytest.fixture
async def ingest(
    database: str,
    pool: asyncpg.Pool,
    kafka_settings: KafkaSettings,
    key_ring: KeyRing,
    key_prefix: str,
    catalogue: None,
    surfaces: Collection[Surfaces],
) -> AsyncIterator[Ingest]:
    secret = await add_key(pool)
    async with (
        running(database, kafka_settings, key_ring, surfaces=surfaces, key_prefix=key_prefix) as (url, health_url),
        plain_client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=20) as client,
    ):
        yield Ingest(url, health_url, client, pool, kafka_settings)
