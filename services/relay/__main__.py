"""`python -m services.relay`: what is due in PostgreSQL goes to Kafka. Any number may run; Redis is not needed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from services.relay.deferred import DeferredReleaser
from services.relay.gauges import Gauges
from services.relay.loop import Loop
from services.relay.outbox import Source
from services.relay.reaper import Reaper
from services.relay.settings import RelaySettings
from services.relay.source import ForeignSource, outbox_loops
from services.relay.sweep import Sweep
from services.relay.topics import TopicDirectory, broker_topics
from services.relay.upkeep import PartitionsAhead, Upkeep
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.record import Publisher
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import Pool, open_pool
from shared.postgres.schema import require_revision
from shared.postgres.settings import PostgresSettings
from shared.runtime.service import Stop, run, serve_health
from shared.runtime.settings import HealthSettings, load
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.topic import declared_topics

_GAUGES_SEC: Final = 10.0
_FIRST_ANSWER_SEC: Final = 3.0
_PARTITIONS_SEC: Final = 600.0
_OTHERS: Final = tuple(entry for entry in MessageClass if entry is not MessageClass.CRITICAL)


@dataclass(frozen=True, slots=True)
class Settings:
    relay: RelaySettings
    postgres: PostgresSettings
    kafka: KafkaSettings
    health: HealthSettings


@dataclass(frozen=True, slots=True)
class Connections:
    """critical and critical_pool serve the critical class alone: a full queue or pool of the others never holds it."""

    critical_pool: Pool
    pool: Pool
    critical: Publisher
    publisher: Publisher
    topics: TopicDirectory


def _now() -> datetime:
    return datetime.now(UTC)


def own_loops(settings: RelaySettings, to: Connections) -> list[Loop]:
    """The loops over Ulak's own database."""
    own = "own"
    sweep = Sweep(
        to.pool,
        to.publisher,
        DEFAULT_CHANNELS,
        first_horizons=settings.first_horizons,
        repeat_sec=settings.sweep_repeat_sec,
        page=settings.sweep_page,
        pause_sec=settings.sweep_pause_sec,
        clock=_now,
    )
    deferred = DeferredReleaser(to.pool, to.publisher, visibility_sec=settings.deferred_visibility_sec)
    reaper = Reaper(
        to.pool, DEFAULT_CHANNELS, grace_sec=settings.reaper_grace_sec, service_version=version("ulak"), clock=_now
    )
    ahead = PartitionsAhead(to.pool, days=settings.partitions_ahead_days, clock=_now)
    return [
        *outbox_loops(
            Source(own, to.critical_pool),
            [MessageClass.CRITICAL],
            settings,
            publisher=to.critical,
            topics=to.topics,
            index=to.critical_pool,
        ),
        *outbox_loops(Source(own, to.pool), _OTHERS, settings, publisher=to.publisher, topics=to.topics, index=to.pool),
        Loop("deferred", deferred.round, settings.poll_sec),
        Loop("sweep", sweep.round, settings.sweep_poll_sec),
        Loop("reaper", reaper.round, settings.reaper_poll_sec),
        Loop("partitions", ahead.round, _PARTITIONS_SEC),
        Loop("upkeep", Upkeep(to.pool, settings, clock=_now).round, settings.upkeep_poll_sec),
        Loop("gauges", Gauges(to.pool).round, _GAUGES_SEC),
    ]


def foreign_sources(settings: Settings, to: Connections) -> list[ForeignSource]:
    return [
        ForeignSource(
            dsn,
            settings.relay,
            postgres=settings.postgres,
            critical=to.critical,
            publisher=to.publisher,
            topics=to.topics,
            index=to.pool,
        )
        for dsn in settings.relay.source_dsns
    ]


def checks(loops: Sequence[Loop], publishers: Sequence[Publisher]) -> Mapping[str, Callable[[], bool]]:
    """Ready: a broker answers and no loop of our own database fails again and again. Sources do not count."""
    return {
        "kafka": lambda: all(publisher.ready() for publisher in publishers),
        **{loop.name: loop.healthy for loop in loops},
    }


async def first_answer(publishers: Sequence[Publisher], stop: Stop) -> None:
    """Give the clients a moment to find the broker, so that a normal start logs no failed rounds."""
    deadline = asyncio.get_running_loop().time() + _FIRST_ANSWER_SEC
    while not all(publisher.ready() for publisher in publishers):
        if asyncio.get_running_loop().time() > deadline or await stop.sleep(0.02):
            return


async def serve(settings: Settings, stop: Stop) -> None:
    """Run until stop: between two rounds of each loop, so that nothing published stays uncommitted."""
    async with AsyncExitStack() as stack:
        # One connection per outbox transaction, and one for each other loop and the index of rejected rows.
        size = len(_OTHERS) * settings.relay.drains + 7
        observer = MetricsObserver()
        names = [topic.name for topic in declared_topics()]
        to = Connections(
            critical_pool=await stack.enter_async_context(open_pool(settings.postgres, name="relay critical", size=2)),
            pool=await stack.enter_async_context(open_pool(settings.postgres, name="relay", size=size)),
            critical=await stack.enter_async_context(
                Producer.open(settings.kafka, name="relay-critical", observer=observer)
            ),
            publisher=await stack.enter_async_context(Producer.open(settings.kafka, name="relay", observer=observer)),
            topics=TopicDirectory(
                await stack.enter_async_context(broker_topics(settings.kafka)), declared=frozenset(names)
            ),
        )
        await require_revision(to.pool)  # not the partitions: this is who makes them
        loops = own_loops(settings.relay, to)
        await stack.enter_async_context(serve_health(settings.health, checks(loops, [to.critical, to.publisher])))
        await first_answer([to.critical, to.publisher], stop)
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.run(stop), name=loop.name)
            for source in foreign_sources(settings, to):
                group.create_task(source.run(stop), name=f"source {source.name}")


def main() -> None:
    settings = Settings(load(RelaySettings), load(PostgresSettings), load(KafkaSettings), load(HealthSettings))

    async def live(stop: Stop) -> None:
        await serve(settings, stop)

    run(live, service="relay")


if __name__ == "__main__":
    main()
