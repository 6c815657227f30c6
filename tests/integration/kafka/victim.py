"""A consumer process that takes a batch, says so, and never finishes it: for test_rebalance.py to kill.

Argument: KafkaSettings as JSON.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from shared.kafka.consumer import Consumer, Received, Rejection
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.memory import InMemoryProducer
from shared.kafka.settings import KafkaSettings
from shared.runtime.logs import configure_logging


async def main() -> None:
    held = 0

    async def hold(batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        nonlocal held
        held += len(batch)
        if held == 5:
            print(f"holding {held}", flush=True)
        await asyncio.Event().wait()
        return ()

    await Consumer(
        KafkaSettings.model_validate_json(sys.argv[1]),
        group="g",
        topics=["t"],
        decode=lambda value, _headers: (value or b"").decode(),
        handle=hold,
        dead_letters=DeadLetterWriter(InMemoryProducer(), dlq_topic="t-dlq", service_version="1.0"),
        batch_size=10,
        max_in_flight=5,
    ).run()


configure_logging("victim")  # to stderr; stdout is for the test
asyncio.run(main())
