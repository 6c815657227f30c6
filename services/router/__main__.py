"""Composition root: `python -m services.router --input requests|events|all [--class critical|tx|bulk|all]`."""

import argparse
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from services.router.application import ApplicationCache
from services.router.cloudevent import read_event
from services.router.content import Writer
from services.router.decider import Decider
from services.router.events import EventHandler
from services.router.facts import FactStore
from services.router.plan import Planner
from services.router.requests import RequestHandler
from services.router.settings import RouterSettings
from services.router.store import RouterStore
from shared.content.render import Renderer
from shared.core.sealing import Purpose, seal
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.catalogue import CatalogueCache
from shared.postgres.pool import open_pool
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source
from shared.runtime.service import Stop, run, serve_health
from shared.runtime.settings import HealthSettings, LocaleSettings, load
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.message import RequestHint, decode
from shared.wire.topic import REQUEST_CLASSES, ROUTER_DLQ, notification_requests

DLQ_ROW: Final = ROUTER_DLQ.encode()
"""The row that dead letters of events are sealed for: they have no id of their own."""


@dataclass(frozen=True, slots=True)
class Settings:
    router: RouterSettings
    kafka: KafkaSettings
    postgres: PostgresSettings
    health: HealthSettings
    default_locale: str


@dataclass(frozen=True, slots=True)
class Inputs:
    """What this process reads. Each gets its own group, database pool and offsets (architecture.md, Isolation)."""

    classes: tuple[MessageClass, ...]
    events: bool


def main() -> None:
    inputs = parse_inputs()
    settings = Settings(
        router=load(RouterSettings),
        kafka=load(KafkaSettings),
        postgres=load(PostgresSettings),
        health=load(HealthSettings),
        default_locale=load(LocaleSettings).locale,
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
        producer = await stack.enter_async_context(
            Producer.open(settings.kafka, name="router", observer=MetricsObserver())
        )
        consumers: dict[str, Consumer[Any]] = {}
        for message_class in inputs.classes:
            name = f"requests-{message_class.label}"
            consumers[name] = await _requests(stack, name, message_class, settings, ring_source, producer)
        if inputs.events:
            consumers["events"] = await _events(stack, settings, ring_source, producer)
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
    stack: AsyncExitStack,
    name: str,
    message_class: MessageClass,
    settings: Settings,
    ring_source: RingSource,
    producer: Producer,
) -> Consumer[RequestHint]:
    parts, observer = await _parts(stack, name, settings, ring_source), MetricsObserver()
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


async def _events(
    stack: AsyncExitStack, settings: Settings, ring_source: RingSource, producer: Producer
) -> Consumer[Any]:
    parts, observer = await _parts(stack, "events", settings, ring_source), MetricsObserver()
    return Consumer(
        settings.kafka,
        group="ulak-router-events",
        topics=settings.router.event_topics,
        decode=read_event,
        handle=EventHandler(
            parts.store,
            parts.decider,
            parts.catalogue,
            ApplicationCache(parts.store),
            ring_source,
            producer,
            DEFAULT_CHANNELS,
            _now,
        ),
        dead_letters=DeadLetterWriter(
            producer,
            dlq_topic=ROUTER_DLQ,
            service_version=version("ulak"),
            seal=lambda value: seal(ring_source.ring, Purpose.OUTBOX, DLQ_ROW, value),
            observer=observer,
        ),
        batch_size=settings.router.batch_size,
        max_in_flight=settings.router.max_in_flight,
        observer=observer,
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    store: RouterStore
    catalogue: CatalogueCache
    decider: Decider


async def _parts(stack: AsyncExitStack, name: str, settings: Settings, ring_source: RingSource) -> _Parts:
    """The database side of one input, on a pool of its own: a bulk wave must not take critical's connections."""
    pool = await stack.enter_async_context(
        open_pool(settings.postgres, name=f"router {name}", size=settings.router.pool_size)
    )
    catalogue = CatalogueCache(pool)
    decider = Decider(
        FactStore(pool, DEFAULT_CHANNELS),
        catalogue,
        Writer(ring_source, Renderer(DEFAULT_CHANNELS)),
        Planner(DEFAULT_CHANNELS),
        DEFAULT_CHANNELS,
        settings.default_locale,
    )
    return _Parts(RouterStore(pool), catalogue, decider)


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
