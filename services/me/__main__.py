"""`python -m services.me`: the composition root of the user's API."""

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from fastapi import APIRouter
from redis.asyncio import Redis

from services.me.app import build_api
from services.me.device_store import DeviceStore
from services.me.gate import Gate
from services.me.inbox import InboxReader
from services.me.inbox_routes import inbox_surface
from services.me.jwks import JwksKeys, open_jwks
from services.me.limit import UserLimiter
from services.me.preference_store import PreferenceStore
from services.me.report import ReportStore
from services.me.routes import device_surface, preference_surface
from services.me.settings import MeSettings
from services.me.stream import InboxStreams, StreamLimits
from services.me.stream_routes import stream_surface
from services.me.token import Keys, SecretKeys, TokenReader
from services.me.unsubscribe import unsubscribe_surface
from services.me.withdrawal import WithdrawalStore
from shared.postgres.inbox import PostgresInbox
from shared.postgres.pool import Pool, open_pool
from shared.postgres.schema import require_revision
from shared.postgres.settings import PostgresSettings
from shared.profile.settings import DeviceSettings
from shared.profile.user import find_user
from shared.redis_store.caller_rate import CallerRate
from shared.redis_store.client import open_redis
from shared.redis_store.inbox_signal import InboxSignals, receiving, signal_inbox
from shared.redis_store.invalidation import Kind, invalidate
from shared.redis_store.settings import RedisSettings
from shared.redis_store.stream_ticket import StreamTickets
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.push_host import Resolve, system_resolver
from shared.runtime.service import Check, Stop, run, serve_health, serve_http
from shared.runtime.settings import HealthSettings, HttpSettings, load
from shared.web.rate import RateLimiter
from shared.wire.channel import DEFAULT_CHANNELS

_NAME: Final = "me"


@dataclass(frozen=True, slots=True)
class Settings:
    me: MeSettings
    device: DeviceSettings
    http: HttpSettings
    health: HealthSettings
    postgres: PostgresSettings
    redis: RedisSettings


def now() -> datetime:
    return datetime.now(UTC)


async def serve(settings: Settings, key_ring: KeyRingSettings, stop: Stop, *, resolve: Resolve | None = None) -> None:
    """Serve until told to stop; then finish what was taken in. resolve: who looks names up; the system if not given."""
    rings = load_ring_source(key_ring)
    me = settings.me
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(refreshed(rings))
        pool = await stack.enter_async_context(open_pool(settings.postgres, name=_NAME, size=me.pool_size))
        await require_revision(pool)
        redis = await stack.enter_async_context(open_redis(settings.redis))
        checks: dict[str, Check] = {"postgres": partial(_answers, pool)}
        tokens = TokenReader(
            await _keys(me, stack, checks),
            issuer=me.jwt_issuer,
            audience=me.jwt_audience,
            leeway_sec=me.jwt_leeway_sec,
        )
        limiter = UserLimiter(
            CallerRate(redis, settings.redis.key_prefix, per_second=me.rate_per_second, burst=me.burst),
            RateLimiter(default_rate=me.rate_per_second, clock=time.monotonic),
            rings,
            retry_sec=settings.redis.retry_sec,
            clock=time.monotonic,
        )

        async def preferences_changed(user_id: int) -> None:
            await invalidate(redis, settings.redis.key_prefix, Kind.PREFERENCES, [user_id])

        surfaces: list[APIRouter] = [
            preference_surface(PreferenceStore(pool, DEFAULT_CHANNELS, rings, preferences_changed), DEFAULT_CHANNELS),
            device_surface(
                DeviceStore(pool, rings, max_devices=settings.device.max_per_user),
                rings,
                resolve or system_resolver(),
                settings.device.push_hosts,
            ),
            unsubscribe_surface(rings, WithdrawalStore(pool, rings, clock=now).withdraw),
            *await _inbox(stack, pool, rings, redis, settings.redis, stop),
        ]
        app = Gate(build_api(surfaces), tokens=tokens, limiter=limiter, settings=me)
        await stack.enter_async_context(serve_health(settings.health, checks))
        await serve_http(app, settings.http, stop)


async def _inbox(
    stack: AsyncExitStack, pool: Pool, rings: RingSource, redis: Redis, settings: RedisSettings, stop: Stop
) -> tuple[APIRouter, APIRouter]:
    signals = InboxSignals(redis, settings.key_prefix, retry_sec=settings.retry_sec)
    await stack.enter_async_context(receiving(signals))
    store = PostgresInbox(pool)
    reader = InboxReader(store, rings)
    find = partial(find_user, pool)

    async def changed(user_id: int) -> None:
        await signal_inbox(redis, settings.key_prefix, [user_id])

    streams = InboxStreams(reader, store, signals, stop, StreamLimits(), time.time)
    return (
        inbox_surface(find, reader, store, ReportStore(pool), changed),
        stream_surface(find, StreamTickets(redis, settings.key_prefix), streams),
    )


async def _keys(me: MeSettings, stack: AsyncExitStack, checks: dict[str, Check]) -> Keys:
    if me.jwt_secret is not None:
        return SecretKeys(me.jwt_secret.get_secret_value().encode())
    assert me.jwks_url is not None  # the settings hold exactly one of the two
    keys = JwksKeys(
        await stack.enter_async_context(open_jwks(me.jwks_url, timeout_sec=me.jwks_timeout_sec)),
        me.algorithms,
        refresh_sec=me.jwks_refresh_sec,
        retry_sec=me.jwks_retry_sec,
        clock=time.monotonic,
    )
    checks["jwks"] = keys.ready
    return keys


async def _answers(pool: Pool) -> bool:
    return bool(await pool.fetchval("SELECT true"))


def main() -> None:
    settings = Settings(
        me=load(MeSettings),
        device=load(DeviceSettings),
        http=load(HttpSettings),
        health=load(HealthSettings),
        postgres=load(PostgresSettings),
        redis=load(RedisSettings),
    )

    async def live(stop: Stop) -> None:
        await serve(settings, load(KeyRingSettings), stop)

    run(live, service=_NAME)


if __name__ == "__main__":
    main()
