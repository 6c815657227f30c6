"""`python -m services.ingest --surface general|otp|all`: the composition root."""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Final

from services.ingest.app import build_api
from services.ingest.caller import CallerCache, load_caller
from services.ingest.cancel import Canceller
from services.ingest.fast_publish import FastPublisher
from services.ingest.gate import Gate
from services.ingest.group_commit import GroupCommit
from services.ingest.intake import NotificationIntake
from services.ingest.otp_intake import OtpIntake
from services.ingest.otp_store import OtpStore
from services.ingest.rate import RateLimiter
from services.ingest.record import NotificationReader
from services.ingest.routes import Surface, general_surface, otp_surface
from services.ingest.settings import IngestSettings
from services.ingest.store import NotificationStore
from shared.content.render import Renderer
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.partition import has_partition
from shared.postgres.pool import Pool, open_pool
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingError, KeyRingSettings, RingSource, load_ring_source
from shared.runtime.logs import get_logger
from shared.runtime.service import Stop, run, serve_health, serve_http
from shared.runtime.settings import HealthSettings, HttpSettings, LocaleSettings, load
from shared.wire.channel import DEFAULT_CHANNELS

_log = get_logger(__name__)

_RING_REFRESH_SEC: Final = 30.0
_DELIVERY_TIMEOUT_MS: Final = 5_000


class Surfaces(StrEnum):
    """Which calls a process serves: login codes have their own pods and pools (architecture.md section 3)."""

    GENERAL = "general"
    OTP = "otp"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Settings:
    ingest: IngestSettings
    locale: LocaleSettings
    http: HttpSettings
    health: HealthSettings
    postgres: PostgresSettings
    kafka: KafkaSettings


def now() -> datetime:
    return datetime.now(UTC)


def impatient(kafka: KafkaSettings) -> KafkaSettings:
    """Give a publish up soon: after two seconds the relay has the row, and a stop should not wait for a lost broker."""
    return kafka.model_copy(
        update={
            "delivery_timeout_ms": min(kafka.delivery_timeout_ms, _DELIVERY_TIMEOUT_MS),
            "missing_topic_timeout_ms": min(kafka.missing_topic_timeout_ms, _DELIVERY_TIMEOUT_MS),
        }
    )


async def serve(settings: Settings, surface: Surfaces, key_ring: KeyRingSettings, stop: Stop) -> None:
    """Serve until told to stop; then finish what was taken in: requests, commits, publishes."""
    rings = load_ring_source(key_ring)
    async with AsyncExitStack() as stack:
        kafka = impatient(settings.kafka)
        producer = await stack.enter_async_context(
            Producer.open(kafka, name=f"ingest-{surface}", observer=MetricsObserver())
        )
        pools: list[Pool] = []
        surfaces: list[Surface] = []
        limiter = RateLimiter(default_rate=settings.ingest.default_rate_per_second, clock=time.monotonic)
        if surface is not Surfaces.OTP:
            pool = await stack.enter_async_context(open_pool(settings.postgres, name="ingest"))
            pools.append(pool)
            surfaces.append(await stack.enter_async_context(_general(settings, pool, producer, rings, limiter)))
        if surface is not Surfaces.GENERAL:
            pool = await stack.enter_async_context(open_pool(settings.postgres, name="ingest otp"))
            pools.append(pool)
            surfaces.append(await stack.enter_async_context(_otp(settings, pool, producer, rings)))
        await require_schema(pools[0], now())
        callers = CallerCache(load_caller(pools[-1]), ttl_sec=settings.ingest.key_ttl_sec, clock=time.monotonic)
        app = Gate(
            build_api([part.router for part in surfaces]),
            direct={path: endpoint for part in surfaces for path, endpoint in part.direct.items()},
            callers=callers,
            limiter=limiter,
            settings=settings.ingest,
            clock=now,
        )
        await stack.enter_async_context(_refreshed(rings))
        catalogue = CatalogueCache(pools[0])
        checks: dict[str, Callable[[], Awaitable[bool]]] = {
            "postgres": partial(_answers, pools),
            "catalogue": partial(_readable, catalogue),
            "partition": partial(_has_partition, pools[0]),
        }
        await stack.enter_async_context(serve_health(settings.health, checks))
        await serve_http(app, settings.http, stop)


@asynccontextmanager
async def _general(
    settings: Settings, pool: Pool, producer: Producer, rings: RingSource, limiter: RateLimiter
) -> AsyncIterator[Surface]:
    publisher = FastPublisher(producer, pool)
    store = NotificationStore(pool, publisher, clock=now)
    commits = GroupCommit(
        store.commit,
        max_in_flight=settings.ingest.max_in_flight,
        max_group=settings.ingest.max_group,
        max_waiting=settings.ingest.max_waiting,
    )
    intake = NotificationIntake(
        catalogue=CatalogueCache(pool),
        channels=DEFAULT_CHANNELS,
        rings=rings,
        store=store,
        commits=commits,
        default_locale=settings.locale.locale,
        clock=now,
    )
    reader = NotificationReader(pool, rings, clock=now)
    yield general_surface(intake, reader, Canceller(pool, publisher, clock=now), limiter)
    await commits.drain()
    await publisher.drain()


@asynccontextmanager
async def _otp(settings: Settings, pool: Pool, producer: Producer, rings: RingSource) -> AsyncIterator[Surface]:
    publisher = FastPublisher(producer, pool)
    store = OtpStore(pool, publisher, clock=now)
    commits = GroupCommit(
        store.commit, max_in_flight=settings.ingest.max_in_flight, max_group=settings.ingest.max_group
    )
    yield otp_surface(
        OtpIntake(
            catalogue=CatalogueCache(pool),
            renderer=Renderer(DEFAULT_CHANNELS),
            rings=rings,
            store=store,
            commits=commits,
            default_locale=settings.locale.locale,
            clock=now,
        )
    )
    await commits.drain()
    await publisher.drain()


@asynccontextmanager
async def _refreshed(rings: RingSource) -> AsyncIterator[None]:
    """Look for a promoted key now and then: what ingest seals should use it without a restart."""

    async def look() -> None:
        while True:
            await asyncio.sleep(_RING_REFRESH_SEC)
            try:
                rings.refresh()
            except KeyRingError as error:
                _log.error("key_ring_not_refreshed", reason=str(error))

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _answers(pools: list[Pool]) -> bool:
    return all([await pool.fetchval("SELECT true") for pool in pools])


async def _readable(catalogue: CatalogueCache) -> bool:
    await catalogue.get()
    return True


async def _has_partition(pool: Pool) -> bool:
    return await has_partition(pool, now().date())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.ingest", description="Serve the internal API.")
    parser.add_argument("--surface", type=Surfaces, choices=list(Surfaces), default=Surfaces.ALL, help="which calls")
    surface: Surfaces = parser.parse_args().surface
    settings = Settings(
        ingest=load(IngestSettings),
        locale=load(LocaleSettings),
        http=load(HttpSettings),
        health=load(HealthSettings),
        postgres=load(PostgresSettings),
        kafka=load(KafkaSettings),
    )
    run(partial(serve, settings, surface, load(KeyRingSettings)), service=f"ingest-{surface}")


if __name__ == "__main__":
    main()
