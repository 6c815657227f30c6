"""Composition root: `python -m services.router --input requests|events|all [--class critical|tx|bulk|all]`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

from redis.exceptions import RedisError

from services.router.application import ApplicationCache
from services.router.cloudevent import read_event
from services.router.content import Writer
from services.router.decider import Decider, Signal
from services.router.events import EventHandler
from services.router.frequency import Frequency
from services.router.plan import Planner
from services.router.recipient_event import RecipientEvents
from services.router.requests import RequestHandler
from services.router.settings import RouterSettings
from services.router.store import RouterStore
from shared.content.render import Renderer
from shared.facts.store import FactStore
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter, sealing
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import Pool, open_pool
from shared.postgres.preference import PreferenceCache
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.redis_store.cap import FrequencyCaps
from shared.redis_store.client import open_redis
from shared.redis_store.inbox_signal import signal_inbox
from shared.redis_store.invalidation import Handler, Kind, Listener, listening
from shared.redis_store.settings import RedisSettings
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.service import Stop, run, serve_health
from shared.runtime.settings import HealthSettings, LinkSettings, LocaleSettings, load
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.message import RequestHint, decode
from shared.wire.topic import REQUEST_CLASSES, ROUTER_DLQ, notification_requests


@dataclass(frozen=True, slots=True)
class Settings:
    router: RouterSettings
    kafka: KafkaSettings
    postgres: PostgresSettings
    health: HealthSettings
    redis: RedisSettings
    locale: LocaleSettings
    links: LinkSettings


@dataclass(frozen=True, slots=True)
class Inputs:
    """What this process reads. Each gets its own group, database pool and offsets (architecture.md, Isolation)."""

    classes: tuple[MessageClass, ...]
    events: bool


@dataclass(frozen=True, slots=True)
class Shared:
    """What the inputs of one process have in common."""

    settings: Settings
    rings: RingSource
    producer: Producer
    caps: FrequencyCaps
    preferences: PreferenceCache
    catalogues: list[CatalogueCache]
    signal: Signal

    def forget_catalogues(self, _keys: Sequence[str] | None) -> None:
        for catalogue in self.catalogues:
            catalogue.forget()


def main() -> None:
    inputs = parse_inputs()
    settings = Settings(
        router=load(RouterSettings),
        kafka=load(KafkaSettings),
        postgres=load(PostgresSettings),
        health=load(HealthSettings),
        redis=load(RedisSettings),
        locale=load(LocaleSettings),
        links=load(LinkSettings),
    )
    run(partial(serve, inputs, settings, load(KeyRingSettings)), service="router")


def parse_inputs(arguments: Sequence[str] | None = None) -> Inputs:
    """Read the command line; ends the process with a usage line when it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m services.router", description="Decide what is sent to whom.")
    parser.add_argument("--input", required=True, choices=("requests", "events", "all"))
    labels = [message_class.label for message_class in REQUEST_CLASSES]
    parser.add_argument("--class", dest="message_class", default="all", choices=(*labels, "all"))
    given = parser.parse_args(arguments)
    chosen = REQUEST_CLASSES if given.message_class == "all" else (MessageClass.from_label(given.message_class),)
    return Inputs(classes=() if given.input == "events" else chosen, events=given.input != "requests")


async def serve(inputs: Inputs, settings: Settings, key_ring: KeyRingSettings, stop: Stop) -> None:
    """Run every input until stop; a consumer that fails ends the process, so that a fresh one takes over."""
    ring_source = load_ring_source(key_ring)
    async with open_pool(settings.postgres, name="router start", size=1) as pool:
        await require_schema(pool, _now())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(refreshed(ring_source))
        producer = await stack.enter_async_context(
            Producer.open(settings.kafka, name="router", observer=MetricsObserver())
        )
        redis = await stack.enter_async_context(open_redis(settings.redis))
        shared = Shared(
            settings,
            ring_source,
            producer,
            FrequencyCaps(redis, settings.redis.key_prefix),
            PreferenceCache(),
            [],
            partial(signal_inbox, redis, settings.redis.key_prefix),
        )
        consumers: dict[str, Consumer[Any]] = {}
        for message_class in inputs.classes:
            name = f"requests-{message_class.label}"
            consumers[name] = await _requests(stack, name, message_class, shared)
        if inputs.events:
            consumers["events"] = await _events(stack, shared)
        with suppress(RedisError):  # marketing then waits for it, nothing else does
            await shared.caps.begin()
        handlers: Mapping[Kind, Handler] = {
            Kind.CATALOGUE: shared.forget_catalogues,
            Kind.PREFERENCES: shared.preferences.forget,
        }
        listener = Listener(redis, settings.redis.key_prefix, handlers, retry_sec=settings.redis.retry_sec)
        await stack.enter_async_context(listening(listener))
        checks: Mapping[str, Callable[[], bool]] = {name: consumer.ready for name, consumer in consumers.items()}
        await stack.enter_async_context(serve_health(settings.health, {**checks, "producer": producer.ready}))
        await _until_stopped(list(consumers.values()), stop)


async def _until_stopped(consumers: Sequence[Consumer[Any]], stop: Stop) -> None:
    async with asyncio.TaskGroup() as group:
        for consumer in consumers:
            group.create_task(consumer.run())
        await stop.wait()
        await asyncio.gather(*(consumer.stop() for consumer in consumers))


async def _requests(
    stack: AsyncExitStack, name: str, message_class: MessageClass, shared: Shared
) -> Consumer[RequestHint]:
    parts, observer = await _parts(stack, name, shared), MetricsObserver()
    settings, producer = shared.settings, shared.producer
    return Consumer(
        settings.kafka,
        group=f"ulak-router-{name}",
        topics=[notification_requests(message_class)],
        decode=partial(decode, RequestHint),
        handle=RequestHandler(parts.store, parts.decider, producer, DEFAULT_CHANNELS, _now),
        dead_letters=DeadLetterWriter(
            producer, dlq_topic=ROUTER_DLQ, service_version=version("ulak"), observer=observer
        ),
        batch_size=settings.router.batch_size,
        max_in_flight=settings.router.max_in_flight,
        observer=observer,
    )


async def _events(stack: AsyncExitStack, shared: Shared) -> Consumer[Any]:
    parts, observer = await _parts(stack, "events", shared), MetricsObserver()
    settings, producer, ring_source = shared.settings, shared.producer, shared.rings
    applications = ApplicationCache(parts.store)
    notifications = EventHandler(
        parts.store,
        parts.decider,
        parts.catalogue,
        applications,
        ring_source,
        producer,
        DEFAULT_CHANNELS,
        _now,
    )
    return Consumer(
        settings.kafka,
        group="ulak-router-events",
        topics=settings.router.event_topics,
        decode=read_event,
        handle=RecipientEvents(notifications, parts.pool, applications, ring_source, _now),
        dead_letters=DeadLetterWriter(
            producer,
            dlq_topic=ROUTER_DLQ,
            service_version=version("ulak"),
            seal=sealing(ROUTER_DLQ, ring_source),
            observer=observer,
        ),
        batch_size=settings.router.batch_size,
        max_in_flight=settings.router.max_in_flight,
        observer=observer,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    pool: Pool
    store: RouterStore
    catalogue: CatalogueCache
    decider: Decider


async def _parts(stack: AsyncExitStack, name: str, shared: Shared) -> _Parts:
    """The database side of one input, on a pool of its own: a bulk wave must not take critical's connections."""
    settings, zone = shared.settings, shared.settings.locale.time_zone
    pool = await stack.enter_async_context(
        open_pool(settings.postgres, name=f"router {name}", size=settings.router.pool_size)
    )
    catalogue = CatalogueCache(pool)
    shared.catalogues.append(catalogue)
    decider = Decider(
        FactStore(pool, DEFAULT_CHANNELS, shared.rings, shared.preferences, default_zone=zone),
        catalogue,
        Writer(shared.rings, Renderer(DEFAULT_CHANNELS, default_zone=zone), public_url=settings.links.public_url),
        Frequency(shared.caps, pool, default_zone=zone),
        Planner(DEFAULT_CHANNELS),
        DEFAULT_CHANNELS,
        settings.locale.locale,
        signal=shared.signal,
    )
    return _Parts(pool, RouterStore(pool), catalogue, decider)


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
