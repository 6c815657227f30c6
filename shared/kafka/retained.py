"""What a topic still holds, read by position: for tools that look, outside any consumer group."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition

from shared.kafka.code import MISSING, PARTITION_END
from shared.kafka.error import MissingTopicError, ReadError
from shared.kafka.settings import KafkaSettings, consumer_options

T = TypeVar("T")

_GROUP: Final = "retained"
"""Never joined: partitions are assigned, and nothing is committed."""
_READ_AT_ONCE: Final = 1000
_GAP: Final = 1000
"""Messages between two that are wanted which are read and left rather than sought over."""


@dataclass(frozen=True, slots=True)
class Retained:
    """One message. headers: of repeated ones the last counts."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


class RetainedReader:
    """Belongs to one event loop; its calls follow one another. All raise ReadError when the broker does not answer."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._names = settings.names
        self._patience_sec = settings.request_timeout_sec
        self._client = confluent_kafka.Consumer(
            consumer_options(settings, _GROUP) | {"auto.offset.reset": "earliest", "enable.partition.eof": True}
        )
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-retained")

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: KafkaSettings) -> AsyncIterator["RetainedReader"]:
        """For the length of the block; nothing connects before the first call."""
        reader = cls(settings)
        try:
            yield reader
        finally:
            await reader._call(reader._client.close)
            reader._executor.shutdown(wait=False)

    async def spans(self, topic: str) -> Mapping[int, range]:
        """The offsets that each partition holds. topic: bare. MissingTopicError if there is none."""
        return await self._call(partial(self._spans, topic))

    async def read(self, topic: str, number: int, span: range) -> AsyncIterator[Sequence[Retained]]:
        """The messages of a partition from span.start to before span.stop that are there, in pages."""
        at = span.start
        while at < span.stop:
            page = await self._call(partial(self._page, topic, number, range(at, span.stop)))
            if page:
                yield page
                at = page[-1].offset + 1
            else:
                return

    async def at(self, topic: str, positions: Collection[tuple[int, int]]) -> Mapping[tuple[int, int], Retained]:
        """Messages by (partition, offset); what is not held any more is absent."""
        by_partition: defaultdict[int, list[int]] = defaultdict(list)
        for number, offset in sorted(set(positions)):
            by_partition[number].append(offset)
        found: dict[tuple[int, int], Retained] = {}
        for number, offsets in by_partition.items():
            wanted = set(offsets)
            for span in _spans_over(offsets):
                async for page in self.read(topic, number, span):
                    found |= {(number, each.offset): each for each in page if each.offset in wanted}
        return found

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _spans(self, topic: str) -> Mapping[int, range]:
        name = self._names.full(topic)
        try:
            described = self._client.list_topics(name, timeout=self._patience_sec).topics[name]
            if described.error is None:
                return {
                    number: range(*self._client.get_watermark_offsets(TopicPartition(name, number), self._patience_sec))
                    for number in sorted(described.partitions)
                }
            trouble = described.error
        except KafkaException as error:
            trouble = error.args[0]
        if trouble.code() in MISSING:
            raise MissingTopicError([topic])
        raise _unread(topic, trouble)

    def _page(self, topic: str, number: int, span: range) -> list[Retained]:
        """The first page of a span; empty: the partition holds nothing of it."""
        try:
            self._client.assign([TopicPartition(self._names.full(topic), number, span.start)])
            return self._consume(topic, number, span)
        except KafkaException as error:
            raise _unread(topic, error.args[0]) from error
        finally:
            self._client.unassign()

    def _consume(self, topic: str, number: int, span: range) -> list[Retained]:
        found: list[Retained] = []
        deadline = time.monotonic() + self._patience_sec
        while len(found) < _READ_AT_ONCE:
            messages = self._client.consume(min(_READ_AT_ONCE, span.stop - span.start), timeout=0.2)
            for message in messages:
                error = message.error()
                if error is not None:
                    if error.code() == PARTITION_END:
                        return found
                    raise KafkaException(error)
                offset = message.offset() or 0
                if offset >= span.stop:
                    return found
                found.append(_retained(number, offset, message))
                if offset == span.stop - 1:
                    return found
            if messages:
                deadline = time.monotonic() + self._patience_sec
            elif time.monotonic() > deadline:
                raise ReadError(f"the broker gave nothing of {topic} for {self._patience_sec:g} s: is it there?")
        return found


def _spans_over(offsets: Sequence[int]) -> Iterator[range]:
    """Few ranges over ascending offsets."""
    start = last = offsets[0]
    for offset in offsets[1:]:
        if offset - last > _GAP:
            yield range(start, last + 1)
            start = offset
        last = offset
    yield range(start, last + 1)


def _retained(number: int, offset: int, message: Any) -> Retained:
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return Retained(number, offset, message.key(), message.value(), {name: value or b"" for name, value in headers})


def _unread(topic: str, error: Any) -> ReadError:
    return ReadError(f"topic {topic} cannot be read ({error.name()}: {error.str()}): see ULAK_KAFKA_BOOTSTRAP_SERVERS")
