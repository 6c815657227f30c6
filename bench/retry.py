"""Messages a second that fail once and arrive at the second attempt: 100,000 through a retry tier of a push lane.

Both attempts are in the figure: claim, outcome, the hint into the tier's topic and out of it again, claim, outcome. The
tier's ten seconds are not: the first hints are due when the last are written. There is nothing to compare it with.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Final

from bench.harness import Bench, Pair, Sample, Servers, WrongResultError, until
from bench.lane import BATCHES_IN_FLIGHT, Load, Stage, open_stage, polls
from shared.core.outcome import Accepted, Outcome, Transient
from shared.core.ports import Prepared, SendWindow
from shared.kafka.consumer import Consumer
from shared.kafka.dead_letters import DeadLetterWriter
from shared.wire.channel import DEFAULT_CHANNELS
from shared.wire.message import DeliveryHint, decode

LOAD: Final = Load(
    lane=DEFAULT_CHANNELS.lane("push-tx"),
    count=100_000,
    address=lambda number: f"{number:064x}",
    content={"title": "Kargonuz yolda", "body": "Siparişiniz bugün teslim edilecek"},
    platform="IOS",
)
_TIER_SEC: Final = LOAD.lane.tiers[0]


@dataclass
class FailsOnce:
    """A provider without a wire: each address is refused the first time, for a reason of its own."""

    provider: str = "apns"
    concurrency: int = 1_000
    asked: Counter[bytes] = field(default_factory=Counter)

    async def send(self, batch: Sequence[Prepared], _window: SendWindow) -> Sequence[Outcome]:
        await asyncio.sleep(0)
        return [self._answer(message) for message in batch]

    def _answer(self, message: Prepared) -> Outcome:
        self.asked[message.key.target_key] += 1
        if self.asked[message.key.target_key] == 1:
            return Transient("503", not_processed=True, of_target=True)
        return Accepted(f"id-{len(self.asked)}")


async def _retried(stage: Stage) -> Sample:
    hints, sender = await stage.seed(), FailsOnce()
    pipeline = stage.pipeline(sender)
    batches = iter(polls(hints, LOAD.lane))

    async def consume() -> None:
        for batch in batches:
            await pipeline(batch)

    started = time.perf_counter()
    await asyncio.gather(*(consume() for _ in range(BATCHES_IN_FLIGHT)))
    failed = time.perf_counter()
    await asyncio.sleep(max(0.0, _TIER_SEC - (failed - started)))
    tier, again = LOAD.lane.retry_topic(_TIER_SEC), time.perf_counter()
    consumer = Consumer(
        stage.kafka,
        group="bench-retry",
        topics=[tier],
        decode=partial(decode, DeliveryHint),
        handle=pipeline,
        dead_letters=DeadLetterWriter(stage.producer, dlq_topic=LOAD.lane.dlq_topic, service_version=version("ulak")),
        batch_size=LOAD.lane.poll_batch,
        max_in_flight=BATCHES_IN_FLIGHT,
        not_before=_not_before,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.run())

        async def all_sent() -> bool:
            return sum(sender.asked.values()) >= 2 * len(hints)

        await until(all_sent, timeout_sec=300, what="the second attempts")
        ended = time.perf_counter()
        await consumer.stop()
    found = await stage.pool.fetch("SELECT status, attempt, count(*) FROM ulak.deliveries GROUP BY status, attempt")
    if set(sender.asked.values()) != {2} or [tuple(row) for row in found] != [("SENT", 2, len(hints))]:
        raise WrongResultError(f"asked {Counter(sender.asked.values())}, rows {[tuple(row) for row in found]}")
    await stage.empty()
    parts = f"first attempts {len(hints) / (failed - started):,.0f}/s, second {len(hints) / (ended - again):,.0f}/s"
    return Sample(len(hints), failed - started + ended - again, note=parts)


def _not_before(hint: DeliveryHint) -> datetime | None:
    return hint.not_before


@asynccontextmanager
async def open_bench(servers: Servers) -> AsyncIterator[Pair]:
    async with open_stage(servers, LOAD, quotas={}) as stage:
        yield Pair(lambda: _retried(stage), None)


BENCH: Final = Bench(name="retry", unit="messages/s", first=None, goal=None, open=open_bench, pairs=1)
