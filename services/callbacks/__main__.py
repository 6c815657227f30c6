"""`python -m services.callbacks [--part receiver|projector|all]`: receipts in, and onto their deliveries."""

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Final

from services.callbacks.projector import Projector
from services.callbacks.receiver import Receiver
from services.callbacks.settings import CallbackSettings
from services.callbacks.store import ReceiptStore
from shared.core.receipt import ReceiptReader
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter, sealing
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from shared.postgres.pool import open_pool
from shared.postgres.schema import require_schema
from shared.postgres.settings import PostgresSettings
from shared.providers.registry import providers
from shared.runtime.keyring import KeyRingSettings, RingSource, load_ring_source, refreshed
from shared.runtime.service import Check, Stop, run, serve_health, serve_http
from shared.runtime.settings import HealthSettings, HttpSettings, load
from shared.wire.message import ReceiptMessage, decode
from shared.wire.topic import DELIVERY_RECEIPTS, RECEIPTS_DLQ

GROUP: Final = "receipt-projector"
_POOL_SIZE: Final = 4


@dataclass(frozen=True, slots=True)
class Base:
    """What both parts need."""

    settings: CallbackSettings
    kafka: KafkaSettings
    readers: Mapping[str, ReceiptReader]
    ring: RingSource


def _now() -> datetime:
    return datetime.now(UTC)


def configured_readers() -> Mapping[str, ReceiptReader]:
    """The readers of every configured provider that calls back, by name."""
    found: dict[str, ReceiptReader] = {}
    for name, provider in providers().items():
        if provider.receipts is None:
            continue
        reader = provider.receipts(load(provider.settings))
        if reader is not None:
            found[name] = reader
    return found


async def receive(base: Base, http: HttpSettings, publisher: Producer, stop: Stop) -> None:
    """The HTTP surface until stop."""
    from services.callbacks.app import create_app  # FastAPI: a third of the start and 20 MiB, for the receiver alone

    receiver = Receiver(base.readers, publisher, base.ring, base.settings, clock=_now)
    await serve_http(create_app(receiver.take), http, stop)


def projector_consumer(base: Base, store: ReceiptStore, publisher: Producer) -> Consumer[ReceiptMessage]:
    observer = MetricsObserver()
    return Consumer(
        base.kafka,
        group=GROUP,
        topics=[DELIVERY_RECEIPTS],
        decode=partial(decode, ReceiptMessage),
        handle=Projector(base.readers, store, publisher, base.ring, clock=_now),
        dead_letters=DeadLetterWriter(
            publisher,
            dlq_topic=RECEIPTS_DLQ,
            service_version=version("ulak"),
            seal=sealing(RECEIPTS_DLQ, base.ring),
            observer=observer,
        ),
        batch_size=base.settings.projector_batch,
        max_in_flight=2,
        observer=observer,
    )


async def project(consumer: Consumer[ReceiptMessage], stop: Stop) -> None:
    """Consume until stop; ends the process if the consumer cannot go on."""
    running = asyncio.create_task(consumer.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await consumer.stop()
    await running


async def serve(part: str, stop: Stop) -> None:
    """Both parts, or one of them."""
    base = Base(
        load(CallbackSettings), load(KafkaSettings), configured_readers(), load_ring_source(load(KeyRingSettings))
    )
    checks: dict[str, Check] = {}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(refreshed(base.ring))
        publisher = await stack.enter_async_context(
            Producer.open(base.kafka, name="callbacks", observer=MetricsObserver())
        )
        checks["kafka"] = publisher.ready
        consumer: Consumer[ReceiptMessage] | None = None
        if part in {"projector", "all"}:
            pool = await stack.enter_async_context(open_pool(load(PostgresSettings), name="projector", size=_POOL_SIZE))
            await require_schema(pool, datetime.now(UTC))
            consumer = projector_consumer(base, ReceiptStore(pool), publisher)
            checks["consumer"] = consumer.ready
        await stack.enter_async_context(serve_health(load(HealthSettings), checks))
        async with asyncio.TaskGroup() as group:
            if consumer is not None:
                group.create_task(project(consumer, stop))
            if part in {"receiver", "all"}:
                group.create_task(receive(base, load(HttpSettings), publisher, stop))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.callbacks", description=__doc__)
    parser.add_argument("--part", choices=("receiver", "projector", "all"), default="receiver")
    part: str = parser.parse_args().part

    async def live(stop: Stop) -> None:
        await serve(part, stop)

    run(live, service=f"callbacks-{part}")


if __name__ == "__main__":
    main()
