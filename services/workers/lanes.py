"""A lane at work: its pipeline, one consumer on its topic and one on each retry tier."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

import structlog

from services.workers.email.strategy import EMAIL
from services.workers.push.strategy import PUSH
from services.workers.settings import WorkerSettings
from services.workers.share import Shares
from services.workers.sms.strategy import SMS
from services.workers.strategy import Strategy
from shared.core.ports import Sender
from shared.delivery.consent import ConsentCheck
from shared.delivery.hours import AllowedHours
from shared.delivery.opening import Preparation
from shared.delivery.pause import Pauses
from shared.delivery.pipeline import Pipeline
from shared.delivery.route import Routes
from shared.delivery.store import DeliveryStore
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.observer import KafkaObserver
from shared.kafka.record import Publisher
from shared.kafka.settings import KafkaSettings
from shared.postgres.control_watch import ControlWatch
from shared.postgres.pool import Pool
from shared.providers.registry import Provider
from shared.providers.settings import ProviderSettings
from shared.providers.simulated import SimulatedSender
from shared.redis_store.breaker import Breakers
from shared.redis_store.pacer import Pacer
from shared.redis_store.token_bucket import Quota
from shared.runtime.keyring import RingSource
from shared.runtime.service import Stop
from shared.wire.channel import Channels, Lane
from shared.wire.message import DeliveryHint, decode

STRATEGIES: Final[Mapping[str, Strategy]] = {strategy.channel: strategy for strategy in (EMAIL, PUSH, SMS)}

Opener = Callable[[DeliveryStore], Preparation]
"""How the rows of a lane with this store are made ready."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Configured:
    """A provider that has its settings."""

    provider: Provider[Any]
    settings: ProviderSettings


@dataclass(frozen=True, slots=True)
class Shared:
    """What the lanes of one process have in common. openers: by channel. shares: None where all are of one class."""

    settings: WorkerSettings
    shares: Shares | None
    kafka: KafkaSettings
    publisher: Publisher
    observer: KafkaObserver
    pacer: Pacer
    breakers: Breakers
    watch: ControlWatch
    openers: Mapping[str, Opener]
    channels: Channels
    rings: RingSource
    service_version: str
    default_zone: str
    stop: Stop


def chosen_lanes(names: Sequence[str], channels: Channels) -> tuple[Lane, ...]:
    """The lanes named, each once, in declared order; `all` names every lane. ValueError for an unknown one."""
    wanted = {lane.name for lane in channels.lanes} if "all" in names else {channels.lane(name).name for name in names}
    return tuple(lane for lane in channels.lanes if lane.name in wanted)


def quotas(configured: Sequence[Configured]) -> Mapping[str, Quota]:
    """The contracts of those providers that have one."""
    return {
        entry.provider.name: Quota(
            entry.provider.name, entry.settings.quota_per_second, entry.settings.quota_reserve_per_second
        )
        for entry in configured
        if entry.settings.quota_per_second is not None
    }


def report_providers(lanes: Sequence[Lane], configured: Sequence[Configured], settings: WorkerSettings) -> None:
    """Say at start who carries which channel, and loudly which channel nobody does, or who is named and cannot."""
    names_of = {
        channel: {entry.provider.name for entry in configured if entry.provider.channel == channel}
        for channel in {lane.channel for lane in lanes}
    }
    for lane in lanes:
        wanted = {member.provider for step in settings.order(lane) or () for member in step}
        for name in sorted(wanted - names_of[lane.channel]):
            _log.error(
                "route_without_provider",
                lane=lane.name,
                provider=name,
                effect="the lane goes on without it",
                remedy="set the provider's ULAK_* settings, or take it out of ULAK_WORKERS_PROVIDERS",
            )
    for channel in dict.fromkeys(lane.channel for lane in lanes):
        names = [entry.provider.name for entry in configured if entry.provider.channel == channel]
        if names:
            _log.info("channel_providers", channel=channel, providers=names)
        else:
            _log.error(
                "channel_without_provider",
                channel=channel,
                effect="its deliveries wait in retry tiers until they expire",
                remedy="set the provider's ULAK_* settings (docs/settings.md)",
            )


async def open_lane(
    lane: Lane, strategy: Strategy, shared: Shared, pool: Pool, configured: Sequence[Configured], stack: AsyncExitStack
) -> tuple[Consumer[DeliveryHint], ...]:
    """The lane's consumers, not yet running. Its senders are its own: no lane waits for another's connections."""
    of_channel = [entry for entry in configured if entry.provider.channel == lane.channel]
    order = strategy.order([entry.provider for entry in of_channel], shared.settings.order(lane))
    simulated = SimulatedSender()
    senders: dict[str, Sender] = {simulated.provider: simulated}
    for entry in of_channel:
        senders[entry.provider.name] = await stack.enter_async_context(entry.provider.open(entry.settings))
    store = DeliveryStore(pool, lane)
    pauses = Pauses(lane, pool=pool, watch=shared.watch, publisher=shared.publisher)
    pipeline = Pipeline(
        lane,
        store=store,
        consents=ConsentCheck(pool, shared.channels.spec(lane.channel), shared.rings),
        senders=senders,
        routes=Routes(lane, order, shared.breakers),
        prepare=shared.openers[lane.channel](store),
        hours=AllowedHours(pool, lane, default_zone=shared.default_zone),
        pauses=pauses,
        pacer=shared.pacer,
        publisher=shared.publisher,
        stopping=lambda: shared.stop.requested,
    )
    return tuple(_consumers(lane, pipeline, pauses, shared))


def _consumers(lane: Lane, pipeline: Pipeline, pauses: Pauses, shared: Shared) -> Iterator[Consumer[DeliveryHint]]:
    """One per topic: a tier's partitions wait for their heads, and must not fill the buffer of another's (K6)."""
    letters = DeadLetterWriter(
        shared.publisher,
        dlq_topic=lane.dlq_topic,
        service_version=shared.service_version,
        observer=shared.observer,
    )
    handle = pipeline if shared.shares is None else shared.shares.shared(lane.message_class, pipeline)
    for topic in (lane.topic, *lane.retry_topics):
        due: Callable[[DeliveryHint], datetime | None] | None = None if topic == lane.topic else _not_before
        yield Consumer(
            shared.kafka,
            group=f"workers-{topic}",
            topics=[topic],
            decode=partial(decode, DeliveryHint),
            handle=handle,
            dead_letters=letters,
            batch_size=lane.poll_batch,
            max_in_flight=shared.settings.batches_in_flight if topic == lane.topic else 1,
            not_before=due,
            resting=lambda: pauses.lane_paused,
            drain_sec=shared.settings.drain_sec,
            observer=shared.observer,
        )


async def consume(consumers: Sequence[Consumer[DeliveryHint]], stop: Stop) -> None:
    """Run all until stop, then drain them together; if one cannot go on, the process ends."""
    running = [asyncio.create_task(consumer.run()) for consumer in consumers]
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
        stop.request()  # also when a consumer failed: the others give back what they have not sent
        await asyncio.gather(*(consumer.stop() for consumer in consumers))
    finally:
        stopped.cancel()
    for task in running:
        await task


def _not_before(hint: DeliveryHint) -> datetime | None:
    return hint.not_before
