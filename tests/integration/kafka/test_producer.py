"""The producer on a real broker: back-pressure, lost acknowledgements, death and replacement."""

import asyncio
import ctypes
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from shared.kafka.producer import Producer, PublishError, Record
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import Observer, create_topics, numbered, read_all, until
from tests.integration.kafka.proxy import Proxy

pytestmark = pytest.mark.kafka


async def test_a_full_queue_before_a_stalled_broker_is_back_pressure_and_all_arrive_K9(
    settings: KafkaSettings, kafka_bootstrap: str
) -> None:
    await create_topics(settings, t=1)
    async with Proxy.open(kafka_bootstrap) as proxy:
        small = settings.model_copy(update={"bootstrap_servers": proxy.address, "queue_buffering_max_messages": 1_000})
        observer = Observer()
        async with Producer.open(small, name="small", observer=observer) as producer:
            await producer.publish([Record("t", b"first", b"first")])
            proxy.stall()
            publishing = asyncio.create_task(producer.publish(numbered(5_000, keys=1)))
            await until(lambda: "queue_full" in observer.kinds())
            assert not publishing.done()
            assert await producer.try_publish([Record("t", b"k", b"must not wait")]) is False
            proxy.resume()
            await publishing
    values = [message.value() for message in await read_all(settings, "t")]
    assert values == [b"first", *(str(i).encode() for i in range(5_000))]


async def test_a_lost_acknowledgement_writes_the_message_once_K10(
    settings: KafkaSettings, kafka_bootstrap: str
) -> None:
    """The broker has it, its answer is lost and the connection cut: the client repeats, the broker knows it already."""
    await create_topics(settings, t=1)
    async with Proxy.open(kafka_bootstrap) as proxy:
        far = settings.model_copy(update={"bootstrap_servers": proxy.address})
        async with Producer.open(far, name="far") as producer:
            await producer.publish([Record("t", b"k", b"first")])
            proxy.swallow()
            publishing = asyncio.create_task(producer.publish(numbered(20)))
            await until(lambda: proxy.swallowed > 0)
            proxy.cut()
            proxy.resume()
            await publishing
    values = Counter(message.value() for message in await read_all(settings, "t"))
    assert values == Counter([b"first", *(str(i).encode() for i in range(20))])


async def test_a_fatal_error_replaces_the_producer_and_the_next_publish_succeeds_K11(
    settings: KafkaSettings, kafka_bootstrap: str
) -> None:
    """With records in flight: they fail as fatal, to be published again from their rows."""
    await create_topics(settings, t=1)
    observer = Observer()
    async with Proxy.open(kafka_bootstrap) as proxy:
        far = settings.model_copy(update={"bootstrap_servers": proxy.address})
        async with Producer.open(far, name="far", observer=observer) as producer:
            await producer.publish([Record("t", b"k", b"before")])
            assert producer.ready()
            proxy.stall()
            publishing = asyncio.create_task(producer.publish(numbered(3)))
            await until(lambda: producer.queued() == 3)
            kill(producer)
            with pytest.raises(PublishError) as caught:
                await publishing
            assert caught.value.fatal
            assert [index for index, _ in caught.value.failed] == [0, 1, 2]
            assert not caught.value.permanent
            proxy.resume()
            await producer.publish(numbered(3))
            assert producer.ready()
    assert "producer_replaced" in observer.kinds()
    values = [message.value() for message in await read_all(settings, "t")]
    assert values[0] == b"before"
    assert values[-3:] == [b"0", b"1", b"2"]


async def test_an_idle_producer_that_died_is_replaced_before_anyone_publishes_K11(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1)
    await producer.publish([Record("t", b"k", b"before")])
    kill(producer)
    await producer.publish([Record("t", b"k", b"after")])
    assert [message.value() for message in await read_all(settings, "t")] == [b"before", b"after"]


async def test_readiness_returns_with_the_broker_without_traffic(settings: KafkaSettings, kafka_bootstrap: str) -> None:
    async with Proxy.open(kafka_bootstrap) as proxy:
        far = settings.model_copy(update={"bootstrap_servers": proxy.address})
        async with Producer.open(far, name="far") as producer:
            await until(producer.ready)
        proxy.stall()
        proxy.cut()
        async with Producer.open(far, name="late") as producer:
            assert not producer.ready()
            proxy.resume()
            await until(producer.ready)


async def test_publishing_while_no_broker_answers_fails_in_bounded_time(settings: KafkaSettings) -> None:
    nobody = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1", "delivery_timeout_ms": 1_000})
    async with Producer.open(nobody, name="nobody") as producer:
        with pytest.raises(PublishError, match="MSG_TIMED_OUT"):
            await producer.publish(numbered(3))
        assert not producer.ready()


async def test_leaving_the_block_waits_for_what_is_queued(settings: KafkaSettings) -> None:
    await create_topics(settings, t=1)
    async with Producer.open(settings, name="brief") as producer:
        publishing = asyncio.create_task(producer.publish(numbered(100)))
        await until(lambda: producer.queued() > 0)
    await publishing
    assert len(await read_all(settings, "t")) == 100


def kill(producer: Producer) -> None:
    """Let the producer's client die of a fatal error, through librdkafka's own test hook.

    No broker can be made to answer so at will, and the Python client does not pass the hook on: its handle is the
    first field of the client object.
    """
    libraries = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(libraries.glob("librdkafka-*.so*"))))
    client = producer._handle.client
    handle = ctypes.c_void_p.from_address(id(client) + object.__basicsize__)
    out_of_order_sequence_number = 45
    library.rd_kafka_test_fatal_error(handle, out_of_order_sequence_number, b"test")
