"""The user's API on real servers: run in the test's loop on a free port, called over real sockets with real tokens."""

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx
import jwt
import pytest

from services.me.__main__ import Settings, serve
from services.me.settings import MeSettings
from shared.core.sealing import KeyRing
from shared.core.web_push import Address
from shared.postgres.settings import PostgresSettings
from shared.profile.settings import DeviceSettings
from shared.redis_store.settings import RedisSettings
from shared.runtime.keyring import KeyRingSettings, ring_json
from shared.runtime.push_host import ResolverError
from shared.runtime.service import Stop
from shared.runtime.settings import HealthSettings, HttpSettings
from tests.integration.ingest.conftest import until
from tests.integration.plain_http import plain_client
from tests.ports import free_port

SECRET = "a secret of the tests, of more than 32 bytes"
ISSUER, AUDIENCE = "https://id.shop.example", "ulak"
ORIGIN = "https://shop.example"
PREFERENCES, DEVICES = "/api/v1/me/notification-preferences", "/api/v1/me/devices"

NAMES: dict[str, list[str]] = {
    "push.example.com": ["203.0.113.7", "8.8.8.8"],  # one of the documentation's: not of the internet
    "push.example.org": ["8.8.8.8", "2001:4860:4860::8888"],
    "internal.example.org": ["10.0.0.8"],
    "mapped.example.org": ["::ffff:127.0.0.1"],
}


async def resolve(host: str) -> Sequence[Address]:
    """A name service whose zone is `NAMES`; `slow.example.org` does not answer."""
    if host == "slow.example.org":
        raise ResolverError("no answer")
    return [ipaddress.ip_address(text) for text in NAMES.get(host, [])]


def claims(user: str | int = "7", **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600} | changes


def token(
    user: str | int = "7", *, key: Any = SECRET, algorithm: str = "HS256", key_id: str | None = None, **changes: Any
) -> str:
    """A token as the shop signs it; a claim given as None is left out."""
    kept = {name: value for name, value in claims(user, **changes).items() if value is not None}
    return jwt.encode(kept, key, algorithm=algorithm, headers=None if key_id is None else {"kid": key_id})


def settings_of(database: str, redis_url: str, key_prefix: str, **me: Any) -> Settings:
    values: dict[str, Any] = {
        "jwt_secret": SECRET,
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "allowed_origins": ORIGIN,
        "body_timeout_sec": 1.0,
        "rate_per_second": 1000,
        "burst": 1000,
    }
    return Settings(
        me=MeSettings.model_validate(values | me),
        device=DeviceSettings(),
        http=HttpSettings(port=free_port(), drain_sec=5),
        health=HealthSettings(port=free_port()),
        postgres=PostgresSettings(dsn=database),
        redis=RedisSettings(url=redis_url, key_prefix=key_prefix),
    )


@dataclass(frozen=True)
class Me:
    """A running service. `as_user` calls it with a token of that user."""

    url: str
    health_url: str
    pool: asyncpg.Pool
    client: httpx.AsyncClient

    def headers(self, user: str | int = "7") -> dict[str, str]:
        return {"authorization": f"Bearer {token(user)}"}

    async def get(self, path: str, user: str | int = "7") -> httpx.Response:
        return await self.client.get(path, headers=self.headers(user))

    async def put(self, path: str, body: Any, user: str | int = "7") -> httpx.Response:
        return await self.client.put(path, json=body, headers=self.headers(user))

    async def post(self, path: str, body: Any, user: str | int = "7") -> httpx.Response:
        return await self.client.post(path, json=body, headers=self.headers(user))

    async def delete(self, path: str, user: str | int = "7") -> httpx.Response:
        return await self.client.delete(path, headers=self.headers(user))


@asynccontextmanager
async def running(settings: Settings, ring: KeyRing) -> AsyncIterator[str]:
    """The service in this loop, until the block ends; its URL."""
    stop = Stop()
    key_ring = KeyRingSettings(ring=ring_json(ring).decode())
    task = asyncio.create_task(serve(settings, key_ring, stop, resolve=resolve))
    url = f"http://127.0.0.1:{settings.http.port}"

    async def answers() -> bool:
        if task.done():
            task.result()
        try:
            async with plain_client() as client:
                await client.get(url)
        except httpx.TransportError:
            return False
        return True

    await until(answers, seconds=60)
    try:
        yield url
    finally:
        stop.request()
        await task


@pytest.fixture
async def me(
    database: str, pool: asyncpg.Pool, redis_url: str, key_prefix: str, key_ring: KeyRing
) -> AsyncIterator[Me]:
    settings = settings_of(database, redis_url, key_prefix)
    async with running(settings, key_ring) as url, plain_client(base_url=url, timeout=60) as client:
        yield Me(url, f"http://127.0.0.1:{settings.health.port}", pool, client)


@pytest.fixture
async def types(pool: asyncpg.Pool) -> None:
    for name, category in (
        ("ORDER_SHIPPED", "TRANSACTIONAL"),
        ("PASSWORD_CHANGED", "SECURITY"),
        ("NOVEMBER_SALE", "MARKETING"),
    ):
        await pool.execute(
            "INSERT INTO ulak.notification_types (type, category, message_class, default_channels, ttl_seconds) "
            "VALUES ($1, $2, 1, '{PUSH}', 86400)",
            name,
            category,
        )


def apns_token(number: int = 1) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()
