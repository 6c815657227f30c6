"""The consumer engine on a real broker: commits, retries, delays, poison, shutdown."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.kafka.error import MissingTopicError
from shared.kafka.producer import Producer, Record
from shared.kafka.record import Received, Rejection
from shared.kafka.settings import KafkaSettings
from shared.wire.message import RequestHint, decode, encode
from tests.integration.kafka.harness import (
    QUICK,
    Inbox,
    Observer,
    committed,
    consumer,
    create_topics,
    numbered,
    read_all,
    running,
    until,
)

pytestmark = pytest.mark.kafka


async def test_all_messages_arrive_once_with_their_facts_and_are_committed(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=2, t_dlq=1)
    records = [Record("t", b"k%d" % i, b"%d" % i, [("traceparent", b"00-%d" % i)]) for i in range(100)]
    inbox = Inbox()
    member = consumer(settings, inbox, producer)
    async with running(member):
        assert not member.ready()
        await producer.publish(records)
        await until(lambda: len(inbox.messages) == 100)
        assert member.ready()
        await until(lambda: sum(offset or 0 for offset in member.assignment().values()) == 100)
    assert sorted(inbox.values, key=int) == [str(i) for i in range(100)]
    for message in inbox.messages:
        assert message.topic == "t"
        assert message.key == b"k" + message.value.encode()
        assert message.headers == {"traceparent": b"00-" + message.value.encode()}
        assert abs(message.timestamp - datetime.now(UTC)) < timedelta(minutes=5)
    assert sum(await committed(settings, partitions=2)) == 100
    assert not member.ready()


async def test_only_the_contiguous_low_water_offset_is_committed_K1(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(60))
    release, done = asyncio.Event(), set[str]()

    async def first_batch_waits(batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        if any(message.value == "0" for message in batch):
            await release.wait()
        done.update(message.value for message in batch)
        return ()

    member = consumer(settings, first_batch_waits, producer, max_in_flight=3)
    async with running(member):
        await until(lambda: len(done) == 50)
        await asyncio.sleep(2 * settings.commit_interval_ms / 1000)
        assert await committed(settings) == [-1001]
        release.set()
        await until(lambda: len(done) == 60)
        await until(lambda: list(member.assignment().values()) == [60])
    assert await committed(settings) == [60]


async def test_commits_follow_within_their_interval_without_new_messages(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    inbox = Inbox()
    async with running(consumer(settings, inbox, producer)):
        await producer.publish(numbered(3))
        await until(lambda: len(inbox.messages) == 3)
        deadline = time.monotonic() + 3.0
        while await committed(settings) != [3]:
            assert time.monotonic() < deadline


async def test_a_failing_handler_gets_the_same_batch_again_and_nothing_is_committed(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(5))
    calls: list[list[str]] = []

    async def fail_thrice(batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        calls.append([message.value for message in batch])
        if len(calls) <= 3:
            assert await committed(settings) == [-1001]
            raise ConnectionError("database is gone")
        return ()

    member = consumer(settings, fail_thrice, producer)
    async with running(member):
        await until(lambda: list(member.assignment().values()) == [5])
    assert calls[0] == calls[1] == calls[2] == calls[3]
    assert await committed(settings) == [5]


async def test_polling_goes_on_while_a_handler_waits_longer_than_the_poll_interval_K2(
    settings: KafkaSettings, producer: Producer
) -> None:
    """Bucket empty for half as long again as max.poll.interval: no eviction, no second hand-over."""
    settings = settings.model_copy(update={"max_poll_interval_ms": 6_000})
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(200))
    inbox, observer = Inbox(), Observer()
    inbox.gate.clear()
    member = consumer(settings, inbox, producer, observer=observer)
    async with running(member):
        await until(lambda: inbox.started == 10)
        await until(lambda: len(member.paused()) == 1, what="the partition is paused")
        await asyncio.sleep(9.0)
        assert inbox.started == 10
        assert observer.events == [("assigned", 1)]
        inbox.gate.set()
        await until(lambda: len(inbox.messages) == 200)
    assert inbox.values == [str(i) for i in range(200)]
    assert "lost" not in observer.kinds()


async def test_delayed_retry_does_not_block_shorter_one_K6(settings: KafkaSettings, producer: Producer) -> None:
    """The long tier's message comes first; the short tier's is on time all the same, and the long one is not sent."""
    await create_topics(settings, long=1, short=1, t_dlq=1)
    begun = datetime.now(UTC)

    async def publish(topic: str, due: datetime) -> None:
        await producer.publish([Record(topic, b"k", due.isoformat().encode())])

    await publish("long", begun + timedelta(hours=1))
    due = begun + timedelta(seconds=3)
    await publish("short", due)
    handled: dict[str, datetime] = {}

    async def note(batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        handled.update((message.topic, datetime.now(UTC)) for message in batch)
        return ()

    long, short = (
        consumer(settings, note, producer, group=tier, topics=[tier], not_before=datetime.fromisoformat)
        for tier in ("long", "short")
    )
    async with running(long, short):
        await until(lambda: "short" in handled)
        assert due <= handled["short"] < due + timedelta(seconds=1)
        assert long.paused() == long.assignment().keys()
    assert "long" not in handled
    assert await committed(settings, group="long", topic="long") == [-1001]


async def test_a_delayed_head_pauses_its_own_partition_only_K6(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=3, t_dlq=1)
    now = datetime.now(UTC)
    late = [Record("t", b"late", (now + timedelta(hours=1)).isoformat().encode())]
    soon = [Record("t", str(i).encode(), now.isoformat().encode()) for i in range(40)]
    await producer.publish(late)
    await producer.publish(soon)
    inbox = Inbox()
    member = consumer(settings, inbox, producer, not_before=datetime.fromisoformat)
    async with running(member):
        written = await read_all(settings, "t", partitions=3)
        (blocked,) = {message.partition() for message in written if message.key() == b"late"}
        expected = [message for message in written if message.partition() != blocked]
        await until(lambda: len(inbox.messages) == len(expected))
        assert {partition.number for partition in member.paused()} == {blocked}


def request(value: bytes | None, headers: Mapping[str, bytes]) -> RequestHint:
    return decode(RequestHint, value, headers)


HINT = RequestHint(UUID("01890a5d-ac96-774b-bcce-b302099a8057"))


async def test_poison_is_dead_lettered_with_where_and_why_then_committed_K7(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    value, headers = encode(HINT)
    await producer.publish(
        [
            Record("t", b"u1", b"{not json", [("traceparent", b"00-1")]),
            Record("t", b"u2", None),
            Record("t", b"u3", value, headers),
            Record("t", b"u4", b'{"v":0}'),
        ]
    )
    handled: list[RequestHint] = []

    async def note(batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
        handled.extend(message.value for message in batch)
        return ()

    member = consumer(settings, note, producer, decode=request)  # type: ignore[arg-type] # another decoder, another type
    async with running(member):
        await until(lambda: list(member.assignment().values()) == [4])
    assert handled == [HINT]
    letters = {letter.key(): letter for letter in await read_all(settings, "t-dlq")}
    assert letters.keys() == {b"u1", b"u2", b"u4"}
    told = dict(letters[b"u1"].headers() or [])
    assert letters[b"u1"].value() == b"{not json"
    assert told["traceparent"] == b"00-1"
    assert told["ulak-dlq-topic"] == b"t"
    assert told["ulak-dlq-partition"] == b"0"
    assert told["ulak-dlq-offset"] == b"0"
    assert told["ulak-dlq-error-class"] == b"MalformedMessageError"
    assert told["ulak-dlq-attempts"] == b"1"
    assert dict(letters[b"u2"].headers() or [])["ulak-dlq-value"] == b"null"
    assert await committed(settings) == [4]


async def test_a_newer_schema_holds_its_partition_and_a_newer_release_goes_on_from_there_K7(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=2, t_dlq=1)
    value, headers = encode(HINT)
    ours = [("ulak-type", b"notification-request"), ("ulak-schema", b"2")]
    newer = [Record("t", b"a", b'{"v":2,"notificationId":"x"}', ours)]
    await producer.publish(newer)
    (held,) = {m.partition() for m in await read_all(settings, "t", partitions=2)}
    await producer.publish([Record("t", str(i).encode(), value, headers) for i in range(40)])
    total = len(await read_all(settings, "t", partitions=2))
    handled: list[Received[RequestHint]] = []
    observer = Observer()

    async def note(batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
        handled.extend(batch)
        return ()

    member = consumer(settings, note, producer, decode=request, observer=observer)  # type: ignore[arg-type] # as above
    async with running(member):
        await until(lambda: handled and {p.number for p in member.paused()} == {held})
        await until(lambda: any(offset == len(handled) for offset in member.assignment().values()))
        assert member.ready()
    assert ("held", held) in observer.events
    assert all(message.partition != held for message in handled)
    assert (await committed(settings, partitions=2))[held or 0] == -1001
    assert await read_all(settings, "t-dlq") == []

    inbox = Inbox()
    async with running(consumer(settings, inbox, producer)):
        await until(lambda: len(inbox.messages) + len(handled) == total)
    assert '{"v":2,"notificationId":"x"}' in inbox.values


async def test_a_failed_dead_letter_write_stops_consumption_until_it_succeeds_K7(
    settings: KafkaSettings, producer: Producer
) -> None:
    """The dead-letter topic is missing: nothing is committed past the poison, nothing new is begun, not ready."""
    await create_topics(settings, t=1)
    await producer.publish([Record("t", b"k", b"{not json")])
    observer, handled = Observer(), list[RequestHint]()

    async def note(batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
        handled.extend(message.value for message in batch)
        return ()

    member = consumer(settings, note, producer, decode=request, observer=observer)  # type: ignore[arg-type] # as above
    async with running(member):
        await until(lambda: ("dead_letter_write_failed", "t-dlq") in observer.events)
        value, headers = encode(HINT)
        await producer.publish([Record("t", b"k", value, headers)] * 5)
        await until(lambda: observer.kinds().count("dead_letter_write_failed") >= 2)
        assert not member.ready()
        assert handled == []
        assert await committed(settings) == [-1001]
        await create_topics(settings, t_dlq=1)
        await until(lambda: len(handled) == 5)
        await until(member.ready)
        await until(lambda: list(member.assignment().values()) == [6])
    assert [letter.value() for letter in await read_all(settings, "t-dlq")] == [b"{not json"]


async def test_an_oversized_message_is_dead_lettered_and_later_ones_flow_K15(
    settings: KafkaSettings, producer: Producer
) -> None:
    """As large as the topic takes: with a dead letter's headers it is too large for the dead-letter topic."""
    await create_topics(settings, t=1, t_dlq=1)
    value, headers = encode(HINT)
    plain = settings.model_copy(update={"compression": "none"})
    async with Producer.open(plain, name="foreign") as foreign:
        await foreign.publish([Record("t", b"k", b"x" * 1_048_400), Record("t", b"k", value, headers)])
        handled: list[RequestHint] = []

        async def note(batch: Sequence[Received[RequestHint]]) -> Sequence[Rejection]:
            handled.extend(message.value for message in batch)
            return ()

        member = consumer(settings, note, foreign, decode=request)  # type: ignore[arg-type] # as above
        async with running(member):
            await until(lambda: list(member.assignment().values()) == [2])
    assert handled == [HINT]
    (letter,) = await read_all(settings, "t-dlq")
    assert letter.value() == b""
    assert dict(letter.headers() or [])["ulak-dlq-value"] == b"dropped"


async def test_stop_lets_handlers_finish_commits_and_leaves_the_group_G1(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(30))
    inbox, successor = Inbox(), Inbox()
    inbox.gate.clear()
    member = consumer(settings, inbox, producer)
    task = asyncio.create_task(member.run())
    await until(lambda: inbox.started == 10)
    stopping = asyncio.create_task(member.stop())
    await asyncio.sleep(0.3)
    assert not stopping.done()
    inbox.gate.set()
    await stopping
    await task
    assert inbox.started == len(inbox.messages) == 10
    assert await committed(settings) == [10]
    begun = time.monotonic()
    async with running(consumer(settings, successor, producer)):
        await until(lambda: len(successor.messages) == 20)
    assert time.monotonic() - begun < settings.session_timeout_ms / 1000, "the group was not left"
    assert successor.values == [str(i) for i in range(10, 30)]


async def test_a_handler_that_never_returns_does_not_hold_the_shutdown_G1(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(3))
    inbox, observer = Inbox(), Observer()
    inbox.gate.clear()
    member = consumer(settings, inbox, producer, drain_sec=0.5, observer=observer)
    task = asyncio.create_task(member.run())
    await until(lambda: inbox.started == 3)
    begun = time.monotonic()
    await member.stop()
    await task
    assert time.monotonic() - begun < 5.0
    assert ("abandoned", 3) in observer.events
    assert await committed(settings) == [-1001]


async def test_cancelling_stops_the_same_way_G1(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(3))
    inbox = Inbox()
    task = asyncio.create_task(consumer(settings, inbox, producer).run())
    await until(lambda: len(inbox.messages) == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await committed(settings) == [3]


async def test_a_failing_batch_does_not_hold_the_shutdown_G1(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(3))
    calls = 0

    async def fail(_batch: Sequence[Received[str]]) -> Sequence[Rejection]:
        nonlocal calls
        calls += 1
        raise ConnectionError

    slow = type(QUICK)(base_sec=60.0, cap_sec=60.0)
    async with running(consumer(settings, fail, producer, retry_delay=slow, drain_sec=30.0)):
        await until(lambda: calls == 1)
        begun = time.monotonic()
    assert time.monotonic() - begun < 5.0
    assert calls == 1


async def test_an_error_of_the_engine_itself_ends_the_consumer(settings: KafkaSettings, producer: Producer) -> None:
    """A batch that is lost to a fault of ours must not leave a consumer that looks alive and never commits."""
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(3))

    class Broken(Observer):
        def batch_handled(self, group: str, size: int, duration_sec: float) -> None:
            raise RuntimeError("broken observer")

    with pytest.raises(RuntimeError, match="broken observer"):
        await consumer(settings, Inbox(), producer, observer=Broken()).run()
    assert await committed(settings) == [-1001]


async def test_a_missing_topic_ends_the_consumer_with_the_remedy(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t_dlq=1)
    with pytest.raises(MissingTopicError, match="ulak topics apply") as caught:
        await consumer(settings, Inbox(), producer).run()
    assert caught.value.topics == (settings.names.full("t"),)


async def test_stop_before_a_broker_answers_returns(settings: KafkaSettings, producer: Producer) -> None:
    nobody = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    member = consumer(nobody, Inbox(), producer)
    async with running(member):
        assert not member.ready()
