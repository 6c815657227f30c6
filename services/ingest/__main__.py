"""`python -m services.ingest [--surface general|otp|admin|all]...`: the composition root."""

import argparse
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Final

from services.ingest.admin.change import Administration, Tell
from services.ingest.admin.imports.importer import Importer
from services.ingest.admin.imports.lines import Limits
from services.ingest.admin.imports.pace import Pace
from services.ingest.admin.imports.surface import imports_surface
from services.ingest.admin.surface import admin_surfaces
from services.ingest.app import build_api
from services.ingest.bulk_cancel import BulkCanceller, bulk_cancel_surface
from services.ingest.caller import CallerCache, load_caller
from services.ingest.cancel import Canceller
from services.ingest.dry_run import DryRun, dry_run_surface
from services.ingest.email_intake import EmailIntake
from services.ingest.email_record import EmailReader
from services.ingest.email_routes import email_surface
from services.ingest.email_store import ConsentStore, LedgerStore, TableStore
from services.ingest.endpoint import Surface
from services.ingest.fast_publish import FastPublisher
from services.ingest.gate import Gate
from services.ingest.group_commit import GroupCommit
from services.ingest.intake import NotificationIntake
from services.ingest.otp_intake import OtpIntake
from services.ingest.otp_store import OtpStore
from services.ingest.record import NotificationReader
from services.ingest.routes import general_surface, otp_surface
from services.ingest.settings import IngestSettings
from services.ingest.store import NotificationStore
from shared.content.render import Renderer
from shared.facts.store import FactStore
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.ledger.ledger import EmailLedger
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.partition import has_partition
from shared.postgres.pool import Pool, open_pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.profile.settings import DeviceSettings
from shared.redis_store.client import open_redis
from shared.redis_store.invalidation import Kind, Listener, invalidate, listening
from shared.redis_store.settings import RedisSettings
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.push_host import system_resolver
from shared.runtime.service import Stop, run, serve_health, serve_http
from shared.runtime.settings import HealthSettings, HttpSettings, LocaleSettings, load
from shared.web.rate import RateLimiter
from shared.wire.channel import DEFAULT_CHANNELS

_DELIVERY_TIMEOUT_MS: Final = 5_000
_ADMIN_POOL: Final = 4
"""Administration is a few people and back offices; it must not take connections from those who send."""
_IMPORT_POOL: Final = 2
"""However many imports there are, no more of the database than this is theirs."""


class Surfaces(StrEnum):
    """Which calls a process serves: login codes have their own pods and pools (architecture.md section 3)."""

    GENERAL = "general"
    OTP = "otp"
    ADMIN = "admin"
    ALL = "all"


_KEYS_BY: Final = (Surfaces.OTP, Surfaces.GENERAL, Surfaces.ADMIN)
"""Whose connections API keys are looked up by: the first that is served, so that nobody waits for those behind."""


def chosen_surfaces(names: Collection[Surfaces]) -> frozenset[Surfaces]:
    """What is named, and everything for ALL."""
    return frozenset(Surfaces) - {Surfaces.ALL} if Surfaces.ALL in names else frozenset(names)


def surface_label(surfaces: Collection[Surfaces]) -> str:
    """The process's name in logs: `ingest-general-admin`."""
    if chosen_surfaces([Surfaces.ALL]) == surfaces:
        return Surfaces.ALL.value
    return "-".join(surface.value for surface in Surfaces if surface in surfaces)


@dataclass(frozen=True, slots=True)
class Settings:
    ingest: IngestSettings
    device: DeviceSettings
    locale: LocaleSettings
    http: HttpSettings
    health: HealthSettings
    postgres: PostgresSettings
    kafka: KafkaSettings
    redis: RedisSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """What a surface is made of; each has its own pool, and the catalogue read by it."""

    settings: Settings
    pool: Pool
    catalogue: CatalogueCache
    producer: Producer
    rings: RingSource


class Catalogues:
    """One catalogue in memory for each pool, so that login codes read theirs by their own connections."""

    def __init__(self) -> None:
        self._caches: dict[Pool, CatalogueCache] = {}

    def of(self, pool: Pool) -> CatalogueCache:
        return self._caches.setdefault(pool, CatalogueCache(pool))

    def forget(self, keys: Sequence[str] | None) -> None:
        for cache in self._caches.values():
            cache.forget(keys)


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


async def serve(settings: Settings, surfaces: Collection[Surfaces], key_ring: KeyRingSettings, stop: Stop) -> None:
    """Serve these (`chosen_surfaces`) until told to stop; then finish requests, commits and publishes under way."""
    rings = load_ring_source(key_ring)
    async with AsyncExitStack() as stack:
        kafka = impatient(settings.kafka)
        producer = await stack.enter_async_context(
            Producer.open(kafka, name=f"ingest-{surface_label(surfaces)}", observer=MetricsObserver())
        )
        redis = await stack.enter_async_context(open_redis(settings.redis))
        catalogues = Catalogues()

        def parts(pool: Pool) -> Parts:
            return Parts(settings, pool, catalogues.of(pool), producer, rings)

        pools: dict[Surfaces, Pool] = {}
        served: list[Surface] = []
        limiter = RateLimiter(default_rate=settings.ingest.default_rate_per_second, clock=time.monotonic)
        if Surfaces.GENERAL in surfaces:
            pool = await stack.enter_async_context(open_pool(settings.postgres, name="ingest"))
            pools[Surfaces.GENERAL] = pool
            served += await stack.enter_async_context(_general(parts(pool), limiter))
            served.append(await stack.enter_async_context(_emails(parts(pool))))
        if Surfaces.OTP in surfaces:
            pool = await stack.enter_async_context(open_pool(settings.postgres, name="ingest otp"))
            pools[Surfaces.OTP] = pool
            served.append(await stack.enter_async_context(_otp(parts(pool))))
        if Surfaces.ADMIN in surfaces:
            pool = await stack.enter_async_context(open_pool(settings.postgres, name="ingest admin", size=_ADMIN_POOL))
            pools[Surfaces.ADMIN] = pool
            tell = partial(invalidate, redis, settings.redis.key_prefix)
            served += admin_surfaces(
                Administration(pool, tell),
                pool,
                rings,
                settings.device,
                system_resolver(),
                settings.locale,
                clock=now,
            )
            pool = await stack.enter_async_context(
                open_pool(settings.postgres, name="ingest imports", size=_IMPORT_POOL)
            )
            served.append(_imports(settings.ingest, pool, rings, tell))
        first = next(iter(pools.values()))
        await require_schema(first, now())
        looked_up_by = next(pools[surface] for surface in _KEYS_BY if surface in pools)
        callers = CallerCache(load_caller(looked_up_by), ttl_sec=settings.ingest.key_ttl_sec, clock=time.monotonic)
        app = Gate(
            build_api([part.router for part in served]),
            direct={path: endpoint for part in served for path, endpoint in part.direct.items()},
            callers=callers,
            limiter=limiter,
            settings=settings.ingest,
            clock=now,
        )
        await stack.enter_async_context(refreshed(rings))
        listener = Listener(
            redis,
            settings.redis.key_prefix,
            {Kind.CATALOGUE: catalogues.forget},
            retry_sec=settings.redis.retry_sec,
        )
        await stack.enter_async_context(listening(listener))
        catalogue = catalogues.of(first)
        # Stuck administration must not take the process away from those who send.
        decisive = [pool for surface, pool in pools.items() if surface is not Surfaces.ADMIN] or [first]
        checks: dict[str, Callable[[], Awaitable[bool]]] = {
            "postgres": partial(_answers, decisive),
            "catalogue": partial(_readable, catalogue),
            "partition": partial(_has_partition, first),
        }
        await stack.enter_async_context(serve_health(settings.health, checks))
        await serve_http(app, settings.http, stop)


def _imports(settings: IngestSettings, pool: Pool, rings: RingSource, tell: Tell) -> Surface:
    pace = Pace(settings.import_rows_per_second)
    importer = Importer(pool, rings, tell, pace=pace, most=settings.import_runs, clock=now)
    return imports_surface(importer, Limits(settings.import_max_bytes, settings.body_timeout_sec))


@asynccontextmanager
async def _general(parts: Parts, limiter: RateLimiter) -> AsyncIterator[Sequence[Surface]]:
    publisher = FastPublisher(parts.producer, parts.pool)
    store = NotificationStore(parts.pool, publisher, clock=now)
    commits = GroupCommit(
        store.commit,
        max_in_flight=parts.settings.ingest.max_in_flight,
        max_group=parts.settings.ingest.max_group,
        max_waiting=parts.settings.ingest.max_waiting,
    )
    intake = NotificationIntake(
        catalogue=parts.catalogue,
        channels=DEFAULT_CHANNELS,
        rings=parts.rings,
        store=store,
        commits=commits,
        default_locale=parts.settings.locale.locale,
        clock=now,
    )
    reader = NotificationReader(parts.pool, parts.rings, DEFAULT_CHANNELS, clock=now)
    canceller = Canceller(parts.pool, publisher, clock=now)
    yield (
        general_surface(intake, reader, canceller, limiter),
        bulk_cancel_surface(BulkCanceller(parts.pool, canceller, clock=now)),
        dry_run_surface(_dry_run(parts, intake)),
    )
    await commits.drain()
    await publisher.drain()


def _dry_run(parts: Parts, intake: NotificationIntake) -> DryRun:
    locale = parts.settings.locale
    # Whoever tries something out wants to see it: what a user said is not remembered here.
    facts = FactStore(
        parts.pool, DEFAULT_CHANNELS, parts.rings, PreferenceCache(ttl_sec=0.0), default_zone=locale.time_zone
    )
    return DryRun(
        intake=intake,
        facts=facts,
        pool=parts.pool,
        rings=parts.rings,
        renderer=Renderer(DEFAULT_CHANNELS, default_zone=parts.settings.locale.time_zone),
        channels=DEFAULT_CHANNELS,
        default_locale=locale.locale,
        clock=now,
    )


@asynccontextmanager
async def _emails(parts: Parts) -> AsyncIterator[Surface]:
    publisher = FastPublisher(parts.producer, parts.pool)
    ledger = EmailLedger(
        parts.pool, parts.catalogue, parts.rings, default_locale=parts.settings.locale.locale, clock=now
    )
    limits = {"max_in_flight": parts.settings.ingest.max_in_flight, "max_group": parts.settings.ingest.max_group}
    by_ledger = GroupCommit(LedgerStore(parts.pool, ledger, publisher, clock=now).commit, **limits)
    by_table = GroupCommit(TableStore(parts.pool, parts.rings).commit, **limits)
    intake = EmailIntake(
        consents=ConsentStore(parts.pool, parts.rings),
        catalogue=parts.catalogue,
        locales=NotificationStore(parts.pool, publisher, clock=now),
        rings=parts.rings,
        ledger=by_ledger,
        table=by_table,
        default_model=parts.settings.ingest.email_model,
        default_locale=parts.settings.locale.locale,
        clock=now,
    )
    yield email_surface(
        intake,
        EmailReader(parts.pool, parts.rings, NotificationReader(parts.pool, parts.rings, DEFAULT_CHANNELS, clock=now)),
    )
    await by_ledger.drain()
    await by_table.drain()
    await publisher.drain()


@asynccontextmanager
async def _otp(parts: Parts) -> AsyncIterator[Surface]:
    publisher = FastPublisher(parts.producer, parts.pool)
    store = OtpStore(parts.pool, publisher, clock=now)
    commits = GroupCommit(
        store.commit, max_in_flight=parts.settings.ingest.max_in_flight, max_group=parts.settings.ingest.max_group
    )
    yield otp_surface(
        OtpIntake(
            catalogue=parts.catalogue,
            renderer=Renderer(DEFAULT_CHANNELS, default_zone=parts.settings.locale.time_zone),
            rings=parts.rings,
            store=store,
            commits=commits,
            default_locale=parts.settings.locale.locale,
            clock=now,
        )
    )
    await commits.drain()
    await publisher.drain()


async def _answers(pools: list[Pool]) -> bool:
    return all([await pool.fetchval("SELECT true") for pool in pools])


async def _readable(catalogue: CatalogueCache) -> bool:
    await catalogue.get()
    return True


async def _has_partition(pool: Pool) -> bool:
    return await has_partition(pool, now().date())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.ingest", description="Serve the internal API.")
    parser.add_argument(
        "--surface",
        type=Surfaces,
        choices=list(Surfaces),
        action="append",
        help="which calls; may be given more than once, all if it is not",
    )
    surfaces = chosen_surfaces(parser.parse_args().surface or [Surfaces.ALL])
    settings = Settings(
        ingest=load(IngestSettings),
        device=load(DeviceSettings),
        locale=load(LocaleSettings),
        http=load(HttpSettings),
        health=load(HealthSettings),
        postgres=load(PostgresSettings),
        kafka=load(KafkaSettings),
        redis=load(RedisSettings),
    )
    run(partial(serve, settings, surfaces, load(KeyRingSettings)), service=f"ingest-{surface_label(surfaces)}")


if __name__ == "__main__":
    main()
