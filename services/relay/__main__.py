"""`python -m services.relay`: what is due in PostgreSQL goes to Kafka, e-mail of model A to its provider.

Any number may run; Redis is not needed. `--model-a`: e-mail of model A alone, without Kafka.
"""

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Final

from services.relay.deferred import DeferredReleaser
from services.relay.email.loops import EmailConfig, ModelA, email_loops, open_model_a
from services.relay.email.outlet import email_account, email_providers
from services.relay.email.settings import ModelASettings
from services.relay.intake.loops import Book, intake_loops, link_loops, open_book
from services.relay.intake.settings import IntakeSettings
from services.relay.iys.loops import open_iys_loops
from services.relay.iys.settings import IysSettings
from services.relay.listen import listener
from services.relay.loop import Loop
from services.relay.opener import Opener
from services.relay.outbox_loops import keeping_loops, reading_loops
from services.relay.publication import Ways
from services.relay.reaper import Reaper
from services.relay.release import PauseGauges, PauseRelease
from services.relay.settings import RelaySettings
from services.relay.source import CRITICAL_CONNECTIONS, ForeignSource, Source, connections
from services.relay.sweep import Sweep
from services.relay.topics import TopicDirectory, broker_topics
from services.relay.upkeep import PartitionsAhead, Upkeep
from shared.delivery.settings import EmailSettings
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.record import Publisher
from shared.kafka.settings import KafkaSettings
from shared.postgres.control_watch import ControlWatch, watching
from shared.postgres.pool import open_pool
from shared.postgres.schema import require_revision
from shared.postgres.settings import PostgresSettings, SourceSettings
from shared.postgres.source import OWN, SourceSpec
from shared.redis_store.settings import RedisSettings
from shared.runtime.error import OperatorError
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.service import Stop, run, serve_health
from shared.runtime.settings import HealthSettings, LinkSettings, LocaleSettings, load
from shared.storage.settings import StorageSettings
from shared.wire.channel import DEFAULT_CHANNELS
from shared.wire.topic import declared_topics

_FIRST_ANSWER_SEC: Final = 3.0
_PARTITIONS_SEC: Final = 600.0
_RELEASE_SEC: Final = 0.5
_GAUGES_SEC: Final = 15.0
_OWN_LOOPS: Final = 12
"""A connection for each loop over Ulak's own database alone, and for the index of rejected rows."""


@dataclass(frozen=True, slots=True)
class Settings:
    """kafka None: nothing is published (`--model-a`)."""

    relay: RelaySettings
    sources: SourceSettings
    postgres: PostgresSettings
    kafka: KafkaSettings | None
    email: EmailConfig
    intake: IntakeSettings
    iys: IysSettings
    health: HealthSettings


@dataclass(frozen=True, slots=True)
class Kafka:
    """The critical class has its own producer: a full queue of the others never holds it."""

    critical: Ways
    others: Ways

    @property
    def publishers(self) -> tuple[Publisher, Publisher]:
        return self.critical.publisher, self.others.publisher


@dataclass(frozen=True, slots=True)
class Shared:
    """What the loops of all sources work with. book None: e-mails of model B wait, as nothing is published."""

    settings: Settings
    own: Source
    rings: RingSource
    kafka: Kafka | None
    model_a: ModelA
    book: Book | None
    watch: ControlWatch


def _now() -> datetime:
    return datetime.now(UTC)


def source_loops(source: Source, shared: Shared) -> list[Loop]:
    """The loops over any source, our own included."""
    settings, kafka = shared.settings.relay, shared.kafka
    loops = [*keeping_loops(source, settings), *email_loops(source, shared.model_a)]
    if kafka is not None:
        loops += reading_loops(source, settings, critical=kafka.critical, others=kafka.others)
    if shared.book is not None:
        loops += intake_loops(source, shared.book)
    return loops


def own_loops(shared: Shared) -> list[Loop]:
    """The loops over Ulak's own database alone."""
    settings, pool = shared.settings.relay, shared.own.pool
    ahead = PartitionsAhead(pool, days=settings.partitions_ahead_days, clock=_now)
    reaper = Reaper(
        pool, DEFAULT_CHANNELS, grace_sec=settings.reaper_grace_sec, service_version=version("ulak"), clock=_now
    )
    loops = [
        Loop("reaper", reaper.round, settings.reaper_poll_sec),
        Loop("partitions", ahead.round, _PARTITIONS_SEC),
        Loop("upkeep", Upkeep(pool, settings, clock=_now).round, settings.upkeep_poll_sec),
    ]
    if shared.kafka is not None:
        publisher = shared.kafka.others.publisher
        deferred = DeferredReleaser(
            pool, publisher, DEFAULT_CHANNELS, watch=shared.watch, visibility_sec=settings.deferred_visibility_sec
        )
        release = PauseRelease(pool, per_second=settings.release_per_second)
        sweep = Sweep(
            pool,
            publisher,
            DEFAULT_CHANNELS,
            first_horizons=settings.first_horizons,
            repeat_sec=settings.sweep_repeat_sec,
            page=settings.sweep_page,
            pause_sec=settings.sweep_pause_sec,
            clock=_now,
        )
        loops += [
            Loop("deferred", deferred.round, settings.deferred_poll_sec),
            Loop("release", release.round, _RELEASE_SEC),
            Loop("pauses", PauseGauges(pool).round, _GAUGES_SEC),
            Loop("sweep", sweep.round, settings.sweep_poll_sec),
        ]
    if shared.book is not None:
        loops += link_loops(shared.book, shared.model_a.storage, keep_days=shared.settings.email.settings.keep_days)
    return loops


def checks(loops: Sequence[Loop], publishers: Sequence[Publisher]) -> Mapping[str, Callable[[], bool]]:
    """Ready: a broker answers and no loop of our own database fails again and again. Sources do not count."""
    kafka = {"kafka": lambda: all(publisher.ready() for publisher in publishers)} if publishers else {}
    return {**kafka, **{loop.name: loop.healthy for loop in loops}}


async def first_answer(publishers: Sequence[Publisher], stop: Stop) -> None:
    """Give the clients a moment to find the broker, so that a normal start logs no failed rounds."""
    deadline = asyncio.get_running_loop().time() + _FIRST_ANSWER_SEC
    while not all(publisher.ready() for publisher in publishers):
        if asyncio.get_running_loop().time() > deadline or await stop.sleep(0.02):
            return


async def serve(settings: Settings, rings: RingSource, stop: Stop) -> None:
    """Run until stop: between two rounds of each loop, so that nothing published stays uncommitted."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(refreshed(rings))
        own = await stack.enter_async_context(open_own(settings))
        kafka = None if settings.kafka is None else await open_kafka(settings.kafka, own, rings, stack)
        publishers = () if kafka is None else kafka.publishers
        watch = await stack.enter_async_context(watching(own.pool))
        model_a = await stack.enter_async_context(open_model_a(settings.email, own.pool, rings, watch, stop))
        book = None if kafka is None else await stack.enter_async_context(_open_book(settings, rings))
        shared = Shared(settings, own, rings, kafka, model_a, book, watch)
        loops = [*source_loops(own, shared), *own_loops(shared)]
        await stack.enter_async_context(serve_health(settings.health, checks(loops, publishers)))
        # After the checks: that the registry is away makes no relay unready.
        loops += await stack.enter_async_context(open_iys_loops(settings.iys, own.pool, rings))
        await first_answer(publishers, stop)
        if settings.relay.listens_to(own.spec):
            loops.append(listener(OWN, settings.postgres, loops, stop, idle_sec=settings.relay.poll_sec))
        async with asyncio.TaskGroup() as group:
            for loop in loops:
                group.create_task(loop.run(stop), name=loop.name)
            for spec in settings.sources.specs:
                source = ForeignSource(spec, settings.relay, settings.postgres, partial(source_loops, shared=shared))
                group.create_task(source.run(stop), name=f"source {spec.name}")


@asynccontextmanager
async def open_own(settings: Settings) -> AsyncIterator[Source]:
    """Ulak's own database, its schema checked; not the partitions: this is who makes them."""
    spec = SourceSpec(OWN, settings.postgres.dsn, OWN, pooled=settings.postgres.statement_cache_size == 0)
    size = connections(settings.relay) + _OWN_LOOPS
    async with (
        open_pool(settings.postgres, name="relay critical", size=CRITICAL_CONNECTIONS) as critical_pool,
        open_pool(settings.postgres, name="relay", size=size) as pool,
    ):
        await require_revision(pool)
        yield Source(spec, critical_pool, pool)


def _open_book(settings: Settings, rings: RingSource) -> AbstractAsyncContextManager[Book]:
    locale = settings.email.default_locale
    return open_book(settings.intake, settings.postgres, rings, default_locale=locale, clock=_now)


async def open_kafka(settings: KafkaSettings, own: Source, rings: RingSource, stack: AsyncExitStack) -> Kafka:
    """The two producers and what goes with them, closed with the stack."""
    observer = MetricsObserver()
    topics = TopicDirectory(
        await stack.enter_async_context(broker_topics(settings)),
        declared=frozenset(topic.name for topic in declared_topics()),
    )
    opener = Opener(rings, clock=time.monotonic)

    async def ways(name: str) -> Ways:
        producer = await stack.enter_async_context(Producer.open(settings, name=name, observer=observer))
        return Ways(producer, topics, opener, own.pool)

    return Kafka(await ways("relay-critical"), await ways("relay"))


def email_config() -> EmailConfig:
    """Redis is used where it is configured, for the quotas that model B's workers share."""
    defaults = load(LocaleSettings)
    return EmailConfig(
        settings=load(ModelASettings),
        mail=load(EmailSettings),
        storage=load(StorageSettings),
        default_locale=defaults.locale,
        public_url=load(LinkSettings).public_url,
        default_zone=defaults.time_zone,
        account=email_account(),
        redis=load(RedisSettings) if os.environ.get("ULAK_REDIS_URL") else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.relay", description=__doc__)
    parser.add_argument("--model-a", action="store_true", help="send e-mail of model A and nothing else: no Kafka")
    alone = parser.parse_args().model_a
    relay = load(RelaySettings)
    settings = Settings(
        relay,
        load(SourceSettings),
        load(PostgresSettings),
        load(KafkaSettings) if not alone else None,
        email_config(),
        load(IntakeSettings),
        load(IysSettings) if not alone else IysSettings(username=None),
        load(HealthSettings),
    )
    key_ring = load(KeyRingSettings)

    async def live(stop: Stop) -> None:
        if alone and settings.email.account is None:
            raise OperatorError(
                f"no provider takes e-mail: set the ULAK_* settings of one ({', '.join(email_providers())}), "
                "see docs/settings.md"
            )
        await serve(settings, load_ring_source(key_ring), stop)

    run(live, service="relay")


if __name__ == "__main__":
    main()
