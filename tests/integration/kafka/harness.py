"""What the broker tests share: topics, consumers in the background, committed offsets, waiting with a deadline."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from shared.kafka.consumer import Consumer, RetryDelay
from shared.kafka.dead_letters import DeadLetterWriter
from shared.kafka.metrics import MetricsObserver
from shared.kafka.producer import Publisher, Record
from shared.kafka.record import Received, Rejection
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import apply
from shared.wire.topic import TopicSpec

HOUR_MS: Final = 3_600_000
QUICK: Final = RetryDelay(base_sec=0.05, cap_sec=0.2)


class Observer(MetricsObserver):
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def rebalanced(self, group: str, kind: str, partitions: int) -> None:
        self.events.append((kind, partitions))

    def work_abandoned(self, group: str, messages: int) -> None:
        self.events.append(("abandoned", messages))

    def offsets_lost(self, topic: str, partition: int) -> None:
        self.events.append(("offsets_lost", topic))

    def partition_held(self, topic: str, partition: int) -> None:
        self.events.append(("held", partition))

    def commit_failed(self, group: str, error: str) -> None:
        self.events.append(("commit_failed", error))

    def dead_letter_write_failed(self, dlq_topic: str) -> None:
        self.events.append(("dead_letter_write_failed", dlq_topic))

    def queue_full(self) -> None:
        self.events.append(("queue_full",))

    def producer_replaced(self) -> None:
        self.events.append(("producer_replaced",))

    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]


class Inbox:
    """A handler that remembers, and can be told to wait."""

    def __init__(self) -> None:
        self.messages: list[Received[str]] = []
        self.started = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._closes_at: int | None = None

    def let_through(self, count: int) -> None:
        """Open the gate, which closes itself once so many more have passed (a whole batch may exceed it)."""
        self._closes_at = len(self.messages) + count
        self.gate.set()

    async def __call__(self, batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        self.started += len(batch)
        await self.gate.wait()
        self.messages += batch
        if self._closes_at is not None and len(self.messages) >= self._closes_at:
            self.gate.clear()
        return ()

    @property
    def values(self) -> list[str]:
        return [message.value for message in self.messages]


def text(value: bytes | None, _headers: Mapping[str, bytes]) -> str:
    return (value or b"").decode()


async def create_topics(settings: KafkaSettings, **partitions: int) -> None:
    """Topics by name (underscores for hyphens) and partitions."""
    report = await apply(
        settings, [TopicSpec(name.replace("_", "-"), count, HOUR_MS) for name, count in partitions.items()]
    )
    assert not report.missing


def delete_topics(settings: KafkaSettings) -> None:
    """Remove every topic of the test's prefix, so that a broker that outlives the tests stays tidy."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    names = [name for name in admin.list_topics(timeout=10.0).topics if name.startswith(settings.topic_prefix)]
    for future in admin.delete_topics(names).values() if names else ():
        future.result(timeout=10.0)


def consumer(
    settings: KafkaSettings,
    handle: Callable[[Sequence[Received[str]]], Awaitable[Sequence[Rejection]]],
    publisher: Publisher,
    **options: Any,
) -> Consumer[str]:
    """A consumer of topic `t` with dead letters on `t-dlq`, unless told otherwise."""
    defaults: dict[str, Any] = {
        "group": "g",
        "topics": ["t"],
        "decode": text,
        "batch_size": 10,
        "drain_sec": 5.0,
        "retry_delay": QUICK,
        "dead_letters": DeadLetterWriter(publisher, dlq_topic="t-dlq", service_version="1.0"),
    }
    return Consumer(settings, handle=handle, **(defaults | options))


@asynccontextmanager
async def running(*consumers: Consumer[str]) -> AsyncIterator[None]:
    """Run consumers in the background; stop them at the end, and raise what they raised."""
    tasks = [asyncio.create_task(each.run()) for each in consumers]
    try:
        yield
    finally:
        await asyncio.gather(*(each.stop() for each in consumers))
        await asyncio.gather(*tasks)


async def until(condition: Callable[[], Any], *, within_sec: float = 60.0, what: str = "") -> None:
    """Poll until the condition holds; fail after the deadline."""
    deadline = time.monotonic() + within_sec
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_sec} s: {what or condition}"
        await asyncio.sleep(0.02)


def numbered(count: int, *, topic: str = "t", keys: int | None = None) -> list[Record]:
    """Records "0", "1", ...; with as many distinct keys as asked for."""
    return [Record(topic, str(number % (keys or count)).encode(), str(number).encode()) for number in range(count)]


async def committed(settings: KafkaSettings, *, group: str = "g", topic: str = "t", partitions: int = 1) -> list[int]:
    """The group's committed offsets by partition; -1001 where there is none."""

    def ask() -> list[int]:
        client = confluent_kafka.Consumer(
            {"bootstrap.servers": settings.bootstrap_servers, "group.id": settings.names.full(group)}
        )
        try:
            wanted = [TopicPartition(settings.names.full(topic), number) for number in range(partitions)]
            return [answer.offset for answer in client.committed(wanted, timeout=10.0)]
        finally:
            client.close()

    return await asyncio.to_thread(ask)


async def read_all(settings: KafkaSettings, topic: str, *, partitions: int = 1) -> list[confluent_kafka.Message]:
    """Every message of a topic, from its first to what is its end now."""

    def read() -> list[confluent_kafka.Message]:
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": settings.bootstrap_servers,
                "group.id": settings.names.full("reader"),
                "enable.auto.commit": False,
            }
        )
        try:
            found: list[confluent_kafka.Message] = []
            for number in range(partitions):
                where = TopicPartition(settings.names.full(topic), number)
                low, high = client.get_watermark_offsets(where, timeout=10.0)
                where.offset = low
                client.assign([where])
                while low < high:
                    message = client.poll(10.0)
                    assert message is not None
                    assert message.error() is None
                    found.append(message)
                    low = (message.offset() or 0) + 1
            return found
        finally:
            client.close()

    return await asyncio.to_thread(read)
