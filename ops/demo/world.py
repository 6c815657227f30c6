"""What the story sees of the running stack: Ulak's API, the simulator's ledger, the broker, the shop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import asyncpg
import httpx
import jwt

from ops.demo.shop import Shop
from ops.demo.shop_database import shop_dsn
from ops.dev.environment import USER_TOKEN_SETTINGS
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings

T = TypeVar("T")


class DidNotHappenError(Exception):
    """Something the story promised did not come true in time; the message says what was seen instead."""


@dataclass(frozen=True, slots=True)
class UserTokens:
    """Signs tokens of users as the shop's login would: with the secret of the running stack."""

    secret: str
    issuer: str
    audience: str

    def of(self, user_id: int) -> str:
        now = int(time.time())
        claims = {"sub": str(user_id), "iss": self.issuer, "aud": self.audience, "iat": now, "exp": now + 600}
        return jwt.encode(claims, self.secret, algorithm="HS256")


@dataclass(frozen=True, slots=True)
class World:
    ingest: httpx.AsyncClient
    otp: httpx.AsyncClient
    simulator: httpx.AsyncClient
    me: httpx.AsyncClient
    tokens: "UserTokens"
    shop: Shop
    producer: Producer
    kafka: KafkaSettings
    ulak: asyncpg.Connection

    async def notification(self, *, event_id: str) -> dict[str, Any] | None:
        """The notification an event became, as the API tells it; None while there is none."""
        reply = await self.ingest.get("/internal/v1/notifications", params={"eventId": event_id})
        if reply.status_code == httpx.codes.NOT_FOUND:
            return None
        return _json(reply)

    async def arrived(self, provider: str, to: str | None = None) -> list[dict[str, Any]]:
        """Every call that reached the simulator's provider, in order, doubles included."""
        query = {"provider": provider, **({"to": to} if to else {})}
        messages: list[dict[str, Any]] = _json(await self.simulator.get("/_sim/messages", params=query))["messages"]
        return messages

    async def fault(self, provider: str, *, to: str, status: int, times: int) -> None:
        """Have the provider answer `status` to the next `times` calls for one recipient."""
        _json(
            await self.simulator.post(
                "/_sim/faults",
                json={"provider": provider, "match": {"to": to}, "action": {"status": status}, "times": times},
            )
        )

    async def accept(self, request: Mapping[str, Any]) -> str:
        """Have a notification accepted; its id."""
        answer = _json(await self.ingest.post("/internal/v1/notifications", json=request))
        return str(answer["notificationId"])

    async def told(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the internal API answers to a POST."""
        return _json(await self.ingest.post(path, json=body))

    async def by_id(self, notification_id: str) -> dict[str, Any]:
        return _json(await self.ingest.get(f"/internal/v1/notifications/{notification_id}"))

    async def as_user(self, user_id: int, method: str, path: str) -> dict[str, Any]:
        """A call of the user's API, as that user's app makes it."""
        headers = {"Authorization": f"Bearer {self.tokens.of(user_id)}"}
        return _json(await self.me.request(method, f"/api/v1/me{path}", headers=headers))

    async def accept_otp(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return _json(await self.otp.post("/internal/v1/otp-messages", json=request))


async def eventually(look: Callable[[], Awaitable[T | None]], what: str, *, within_sec: float = 20) -> T:
    """The first answer of `look` that is not None; DidNotHappenError naming `what` after the time is up."""
    deadline = time.monotonic() + within_sec
    while True:
        seen = await look()
        if seen is not None:
            return seen
        if time.monotonic() > deadline:
            raise DidNotHappenError(f"{what} did not happen within {within_sec:.0f} s")
        await asyncio.sleep(0.05)


@asynccontextmanager
async def open_world(settings: Mapping[str, str]) -> AsyncIterator[World]:
    """Connect to everything `ulak dev env` names."""
    kafka = KafkaSettings(bootstrap_servers=settings["ULAK_KAFKA_BOOTSTRAP_SERVERS"])
    headers = {"Authorization": f"Bearer {settings['ULAK_API_KEY']}"}
    tokens = UserTokens(*(settings[name] for name in USER_TOKEN_SETTINGS))
    shop = await asyncpg.connect(shop_dsn(settings["ULAK_POSTGRES_DSN"]))
    ulak = await asyncpg.connect(settings["ULAK_POSTGRES_DSN"])
    try:
        async with (
            httpx.AsyncClient(base_url=settings["ULAK_INGEST_URL"], headers=headers, timeout=10) as ingest,
            httpx.AsyncClient(base_url=settings["ULAK_OTP_URL"], headers=headers, timeout=10) as otp,
            httpx.AsyncClient(base_url=settings["ULAK_SIMULATOR_URL"], timeout=10) as simulator,
            httpx.AsyncClient(base_url=settings["ULAK_ME_URL"], timeout=10) as me,
            Producer.open(kafka, name="ulak-demo") as producer,
        ):
            yield World(ingest, otp, simulator, me, tokens, Shop(shop), producer, kafka, ulak)
    finally:
        await shop.close()
        await ulak.close()


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _json(reply: httpx.Response) -> dict[str, Any]:
    if reply.is_error:
        raise DidNotHappenError(
            f"{reply.request.method} {reply.request.url.path} answered {reply.status_code}: {reply.text[:300]}"
        )
    body: dict[str, Any] = reply.json()
    return body
