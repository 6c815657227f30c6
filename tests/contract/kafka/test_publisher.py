"""What holds for every producer: the real one and its stand-in for tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from shared.kafka.memory import InMemoryProducer
from shared.kafka.producer import Producer, Publisher, PublishError, Record
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import create_topics, delete_topics, read_all, until

Written = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]
CAPACITY = 50


@dataclass
class Subject:
    """A producer whose queue takes 50 records and whose only topic is `t`, and what was written there."""

    publisher: Publisher
    written: Callable[[], Awaitable[Written]]


@pytest.fixture(params=["memory", pytest.param("broker", marks=pytest.mark.kafka)])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = InMemoryProducer(topics={"t"}, capacity=CAPACITY)

        async def kept() -> Written:
            return [(record.key, record.value, list(record.headers)) for record in memory.on("t")]

        yield Subject(memory, kept)
        return
    settings: KafkaSettings = request.getfixturevalue("kafka_settings").model_copy(
        update={"queue_buffering_max_messages": CAPACITY, "missing_topic_timeout_ms": 500}
    )
    await create_topics(settings, t=1)

    async def read() -> Written:
        return [
            (message.key(), message.value(), [(name, value) for name, value in message.headers() or []])  # type: ignore[misc,str-unpack] # always a list of pairs
            for message in await read_all(settings, "t")
        ]

    async with Producer.open(settings, name="contract") as producer:
        await until(producer.ready)
        yield Subject(producer, read)
    delete_topics(settings)


async def test_all_is_written_in_order_with_headers_when_publish_returns(subject: Subject) -> None:
    records = [Record("t", b"k", b"%d" % i, [("a", b"1"), ("a", b"2"), ("n", b"%d" % i)]) for i in range(120)]
    await subject.publisher.publish(records)
    assert await subject.written() == [(r.key, r.value, list(r.headers)) for r in records]
    assert subject.publisher.ready()


async def test_no_records_are_no_work(subject: Subject) -> None:
    await subject.publisher.publish([])
    assert await subject.publisher.try_publish([])


async def test_key_and_value_may_be_null(subject: Subject) -> None:
    await subject.publisher.publish([Record("t", None, None)])
    assert await subject.written() == [(None, None, [])]


async def test_an_unknown_topic_fails_alone_and_names_the_remedy(subject: Subject) -> None:
    with pytest.raises(PublishError, match="ulak topics apply") as caught:
        await subject.publisher.publish(
            [Record("t", b"k", b"1"), Record("nowhere", b"k", b"2"), Record("t", b"k", b"3")]
        )
    assert [index for index, _ in caught.value.failed] == [1]
    assert "nowhere" in caught.value.failed[0][1]
    assert caught.value.permanent == frozenset()
    assert not caught.value.fatal
    assert [value for _, value, _ in await subject.written()] == [b"1", b"3"]


async def test_a_record_too_large_fails_for_good_and_the_others_are_written_K15(subject: Subject) -> None:
    with pytest.raises(PublishError, match="MSG_SIZE_TOO_LARGE") as caught:
        await subject.publisher.publish([Record("t", b"k", b"x" * 1_200_000), Record("t", b"k", b"small")])
    assert [index for index, _ in caught.value.failed] == [0]
    assert caught.value.permanent == {0}
    assert [value for _, value, _ in await subject.written()] == [b"small"]


async def test_try_publish_tells_that_all_is_written(subject: Subject) -> None:
    assert await subject.publisher.try_publish([Record("t", b"k", b"1")])
    assert [value for _, value, _ in await subject.written()] == [b"1"]


async def test_try_publish_refuses_what_the_queue_has_no_room_for_and_queues_nothing_K9(subject: Subject) -> None:
    assert not await subject.publisher.try_publish([Record("t", b"k", b"%d" % i) for i in range(CAPACITY + 1)])
    assert await subject.written() == []


async def test_try_publish_never_raises_for_what_the_broker_says(subject: Subject) -> None:
    assert not await subject.publisher.try_publish([Record("nowhere", b"k", b"1")])
