"""What a topic still holds, read outside any group."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from shared.kafka.error import MissingTopicError, ReadError
from shared.kafka.producer import Producer
from shared.kafka.record import Record
from shared.kafka.retained import RetainedReader
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import create_topics

pytestmark = pytest.mark.kafka

MANY = 2_500
"""More than one page."""


async def read_all(reader: RetainedReader, topic: str, number: int, span: range) -> list[int]:
    return [message.offset async for page in reader.read(topic, number, span) for message in page]


async def test_all_of_a_partition_in_order_and_nothing_past_its_end(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1)
    await producer.publish([Record("t", b"k", str(n).encode(), [("n", str(n).encode())]) for n in range(MANY)])
    async with RetainedReader.open(settings) as reader:
        assert await reader.spans("t") == {0: range(MANY)}
        assert await read_all(reader, "t", 0, range(MANY)) == list(range(MANY))
        assert await read_all(reader, "t", 0, range(7, 9)) == [7, 8]
        assert await read_all(reader, "t", 0, range(MANY, MANY + 5)) == []
        found = await reader.at("t", [(0, 3), (0, MANY - 1), (0, MANY + 3)])
    assert {at: (message.value, message.headers) for at, message in found.items()} == {
        (0, n): (str(n).encode(), {"n": str(n).encode()}) for n in (3, MANY - 1)
    }


async def test_what_is_gone_is_passed_over(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=2)
    await producer.publish([Record("t", b"k", str(n).encode()) for n in range(20)])
    async with RetainedReader.open(settings) as reader:
        ((number, span),) = [(number, span) for number, span in (await reader.spans("t")).items() if span]
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        place = TopicPartition(settings.names.full("t"), number, 15)
        for future in admin.delete_records([place]).values():
            future.result(timeout=60)
        assert (await reader.spans("t"))[number] == range(15, 20)
        assert await read_all(reader, "t", number, span) == list(range(15, 20))
        assert set(await reader.at("t", [(number, 3), (number, 16)])) == {(number, 16)}


async def test_empty_and_missing_topics(settings: KafkaSettings) -> None:
    await create_topics(settings, t=1)
    async with RetainedReader.open(settings) as reader:
        assert await reader.spans("t") == {0: range(0)}
        assert await read_all(reader, "t", 0, range(5)) == []
        with pytest.raises(MissingTopicError, match="topics apply"):
            await reader.spans("other")


async def test_a_broker_that_does_not_answer(settings: KafkaSettings) -> None:
    nobody = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1", "request_timeout_sec": 1.0})
    async with RetainedReader.open(nobody) as reader:
        with pytest.raises(ReadError, match="ULAK_KAFKA_BOOTSTRAP_SERVERS"):
            await reader.spans("t")
