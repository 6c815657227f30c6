"""`python -m services.workers --lane otp-sms`: sends what a lane brings. Repeat `--lane`, or say `all`."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from services.workers.lanes import (
    STRATEGIES,
    Configured,
    Opener,
    Shared,
    chosen_lanes,
    consume,
    open_lane,
    quotas,
    report_providers,
)
from services.workers.settings import BreakerSettings, WorkerSettings
from services.workers.share import Shares
from shared.content.render import Renderer
from shared.delivery.email import EmailPreparation
from shared.delivery.mail import MailMaker
from shared.delivery.opening import Opening
from shared.delivery.settings import EmailSettings
from shared.kafka.consumer import Consumer
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.control_watch import watching
from shared.postgres.pool import Pool, open_pool
from shared.postgres.provider import ProviderEvents
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.providers.registry import providers
from shared.redis_store.breaker import Breakers, BreakerScript, kept_current
from shared.redis_store.client import open_redis
from shared.redis_store.pacer import Pacer
from shared.redis_store.quota import LiveQuotas
from shared.redis_store.settings import RedisSettings
from shared.redis_store.token_bucket import TokenBuckets
from shared.runtime.garbage import collect_rarely
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.service import Check, Stop, run, serve_health
from shared.runtime.settings import HealthSettings, LinkSettings, LocaleSettings, load
from shared.storage.client import open_storage
from shared.storage.settings import StorageSettings
from shared.wire.channel import DEFAULT_CHANNELS, EMAIL, Lane, MessageClass
from shared.wire.message import DeliveryHint

_POOL_CLASS: Final = {MessageClass.LOW: MessageClass.BULK}
"""Low lanes share the bulk pool; critical ones never share theirs (architecture.md, Isolation)."""


async def _open_pools(lanes: Sequence[Lane], settings: WorkerSettings, stack: AsyncExitStack) -> Mapping[str, Pool]:
    """Lane -> pool: one pool per class."""
    postgres = load(PostgresSettings)
    by_class: dict[MessageClass, Pool] = {}
    for message_class in sorted({_POOL_CLASS.get(lane.message_class, lane.message_class) for lane in lanes}):
        name = f"workers {message_class.label}"
        by_class[message_class] = await stack.enter_async_context(
            open_pool(postgres, name=name, size=settings.pool_size)
        )
    return {lane.name: by_class[_POOL_CLASS.get(lane.message_class, lane.message_class)] for lane in lanes}


async def _openers(
    lanes: Sequence[Lane], pools: Mapping[str, Pool], ring: RingSource, stack: AsyncExitStack
) -> Mapping[str, Opener]:
    """By channel. What makes mails is opened once, and only where e-mail is served."""
    openers: dict[str, Opener] = {lane.channel: lambda _store: Opening(ring) for lane in lanes}
    if EMAIL.name in openers:
        most_urgent = min((lane for lane in lanes if lane.channel == EMAIL.name), key=lambda lane: lane.message_class)
        defaults = load(LocaleSettings)
        maker = MailMaker(
            CatalogueCache(pools[most_urgent.name]),
            Renderer(default_zone=defaults.time_zone),
            await stack.enter_async_context(open_storage(load(StorageSettings))),
            ring,
            default_locale=defaults.locale,
            limits=load(EmailSettings),
            public_url=load(LinkSettings).public_url,
        )
        openers[EMAIL.name] = lambda store: EmailPreparation(store, maker, ring)
    return openers


async def serve(lanes: Sequence[Lane], stop: Stop) -> None:
    """Work the lanes until stop."""
    settings, kafka, redis_settings = load(WorkerSettings), load(KafkaSettings), load(RedisSettings)
    ring = load_ring_source(load(KeyRingSettings))
    channels = {lane.channel for lane in lanes}
    found = [
        Configured(provider, load(provider.settings))
        for provider in providers().values()
        if provider.channel in channels
    ]
    configured = [entry for entry in found if entry.settings.configured]
    report_providers(lanes, configured, settings)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(refreshed(ring))
        observer = MetricsObserver()
        publisher = await stack.enter_async_context(Producer.open(kafka, name="workers", observer=observer))
        redis = await stack.enter_async_context(open_redis(redis_settings))
        pools = await _open_pools(lanes, settings, stack)
        await require_schema(next(iter(pools.values())), datetime.now(UTC))
        watch = await stack.enter_async_context(watching(next(iter(pools.values()))))
        pacer = Pacer(
            TokenBuckets(redis, redis_settings.key_prefix),
            LiveQuotas(quotas(configured), lambda: watch.current),
            workers=settings.count,
            retry_sec=redis_settings.retry_sec,
        )
        policy = load(BreakerSettings).policy
        breakers = Breakers(
            BreakerScript(redis, redis_settings.key_prefix, policy),
            policy,
            told=ProviderEvents(next(iter(pools.values()))),
            retry_sec=redis_settings.retry_sec,
        )
        await stack.enter_async_context(kept_current(breakers))
        openers = await _openers(lanes, pools, ring, stack)
        zone = load(LocaleSettings).time_zone
        classes = {lane.message_class for lane in lanes}
        shares = Shares(classes, settings.slots) if len(classes) > 1 else None
        shared = Shared(
            settings=settings,
            shares=shares,
            kafka=kafka,
            publisher=publisher,
            observer=observer,
            pacer=pacer,
            breakers=breakers,
            watch=watch,
            openers=openers,
            channels=DEFAULT_CHANNELS,
            rings=ring,
            service_version=version("ulak"),
            default_zone=zone,
            stop=stop,
        )
        consumers: list[Consumer[DeliveryHint]] = []
        for lane in lanes:
            strategy = STRATEGIES[lane.channel]
            consumers += await open_lane(lane, strategy, shared, pools[lane.name], configured, stack)
        checks: dict[str, Check] = {
            "kafka": publisher.ready,
            "consumers": lambda: all(consumer.ready() for consumer in consumers),
        }
        await stack.enter_async_context(serve_health(load(HealthSettings), checks))
        collect_rarely()  # the providers' libraries are loaded by now, too
        await consume(consumers, stop)


def main() -> None:
    names = [lane.name for lane in DEFAULT_CHANNELS.lanes]
    parser = argparse.ArgumentParser(prog="python -m services.workers", description=__doc__)
    parser.add_argument(
        "--lane", action="append", required=True, choices=[*names, "all"], help="a lane to serve; may be repeated"
    )
    lanes = chosen_lanes(parser.parse_args().lane, DEFAULT_CHANNELS)

    async def live(stop: Stop) -> None:
        await serve(lanes, stop)

    run(live, service="workers" if len(lanes) > 1 else f"workers-{lanes[0].name}")


if __name__ == "__main__":
    main()
