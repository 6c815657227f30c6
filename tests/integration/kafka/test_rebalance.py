"""What happens to work and offsets when partitions move, and when a member dies."""

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import (
    Inbox,
    Observer,
    committed,
    consumer,
    create_topics,
    numbered,
    running,
    until,
)
from tests.integration.kafka.proxy import Proxy

pytestmark = pytest.mark.kafka

VICTIM = Path(__file__).with_name("victim.py")


async def test_kill_9_between_poll_and_send_redelivers_everything_K1(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(5))
    victim = await asyncio.create_subprocess_exec(
        sys.executable,
        str(VICTIM),
        settings.model_dump_json(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=VICTIM.parents[3],
    )
    assert victim.stdout is not None
    try:
        assert await victim.stdout.readline() == b"holding 5\n"
    finally:
        victim.send_signal(signal.SIGKILL)
        await victim.wait()
    assert await committed(settings) == [-1001]
    inbox = Inbox()
    async with running(consumer(settings, inbox, producer)):
        await until(lambda: len(inbox.messages) == 5)
    assert inbox.values == ["0", "1", "2", "3", "4"]
    assert await committed(settings) == [5]


async def test_drain_at_revoke_is_bounded_and_what_is_worked_on_twice_is_counted_K3(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=2, t_dlq=1)
    await producer.publish(numbered(40))
    slow, other, observer = Inbox(), Inbox(), Observer()
    slow.gate.clear()
    first = consumer(settings, slow, producer, drain_sec=0.5, batch_size=100, max_in_flight=4, observer=observer)
    second = consumer(settings, other, producer)
    async with running(first):
        await until(lambda: slow.started == 40)
        async with running(second):
            await until(lambda: "abandoned" in observer.kinds())
            await until(lambda: other.messages)
            moved = {message.partition for message in other.messages}
            assert len(moved) == 1
            slow.gate.set()
            await until(lambda: len(slow.messages) == 40)
            (kept,) = {0, 1} - moved
            expected = sum(message.partition in moved for message in slow.messages)
            await until(lambda: len(other.messages) == expected)
            await until(lambda: set(first.assignment().values()) == {40 - expected})
    assert ("abandoned", expected) in observer.events
    offsets = await committed(settings, partitions=2)
    assert sum(offsets) == 40
    assert offsets[kept] == 40 - expected


async def test_drain_at_revoke_commits_what_finishes_in_time_K3(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=2, t_dlq=1)
    await producer.publish(numbered(40))
    slow, other, observer = Inbox(), Inbox(), Observer()
    slow.gate.clear()
    first = consumer(settings, slow, producer, drain_sec=10.0, batch_size=100, max_in_flight=4, observer=observer)
    async with running(first):
        await until(lambda: slow.started == 40)
        second = consumer(settings, other, producer)
        async with running(second):
            asyncio.get_running_loop().call_later(1.5, slow.gate.set)
            await until(lambda: len(slow.messages) == 40)
            await until(second.ready)
            await until(lambda: len(second.assignment()) == 1)
    assert other.messages == []
    assert "abandoned" not in observer.kinds()
    assert sum(await committed(settings, partitions=2)) == 40


async def test_lost_partitions_are_dropped_without_a_commit_and_the_member_returns_K4(
    settings: KafkaSettings, kafka_bootstrap: str, producer: Producer
) -> None:
    """The broker is out of reach past the session time-out while a handler works: the group gives the member up."""
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(3))
    inbox, observer = Inbox(), Observer()
    inbox.gate.clear()
    async with Proxy.open(kafka_bootstrap) as proxy:
        far = settings.model_copy(update={"bootstrap_servers": proxy.address})
        member = consumer(far, inbox, producer, observer=observer)
        async with running(member):
            await until(lambda: inbox.started == 3)
            proxy.stall()
            await asyncio.sleep(settings.session_timeout_ms / 1000 + 2.0)
            proxy.resume()
            await until(lambda: "lost" in observer.kinds())
            inbox.gate.set()
            # The stale results moved nothing: the same messages come again, to the member that has rejoined.
            await until(lambda: len(inbox.messages) == 6)
            await until(lambda: list(member.assignment().values()) == [3])
    assert ("abandoned", 3) in observer.events
    assert Counter(inbox.values) == {"0": 2, "1": 2, "2": 2}
    assert await committed(settings) == [3]


async def test_a_paused_partition_stays_paused_across_a_cooperative_rebalance_K5(
    settings: KafkaSettings, producer: Producer
) -> None:
    """Every head is due in an hour; a second member joins; what the first keeps is still paused and not read again."""
    await create_topics(settings, t=4, t_dlq=1)
    await producer.publish(numbered(80))
    moment = datetime.now(UTC)
    due = moment + timedelta(hours=1)
    read: Counter[str] = Counter()

    def note(value: bytes | None, _headers: Mapping[str, bytes]) -> str:
        read[(value or b"").decode()] += 1
        return (value or b"").decode()

    first_inbox, second_inbox = Inbox(), Inbox()
    first = consumer(settings, first_inbox, producer, decode=note, not_before=lambda _: due, clock=lambda: moment)
    second = consumer(settings, second_inbox, producer, not_before=lambda _: due, clock=lambda: moment)
    async with running(first):
        await until(lambda: len(first.paused()) == 4)
        before = read.copy()
        async with running(second):
            await until(lambda: len(first.assignment()) == 2 and len(second.paused()) == 2)
            await asyncio.sleep(1.0)
            assert first.paused() == first.assignment().keys()
            assert read == before, "a partition was rewound"
            assert first_inbox.messages == second_inbox.messages == []
            moment = due
            await until(lambda: len(first_inbox.messages) + len(second_inbox.messages) == 80)
    assert Counter(first_inbox.values + second_inbox.values) == Counter(str(i) for i in range(80))


async def test_a_pause_for_a_full_buffer_neither_rewinds_nor_skips_K5(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=2, t_dlq=1)
    await producer.publish(numbered(2_000))
    inbox = Inbox()
    member = consumer(settings, inbox, producer, max_in_flight=2)
    inbox.gate.clear()
    async with running(member):
        for _ in range(4):  # less in all than a partition holds: both have something left to pause for, each time
            await until(lambda: len(member.paused()) == 2)
            inbox.let_through(150)
            await until(lambda: not inbox.gate.is_set())
        await until(lambda: len(member.paused()) == 2)
        inbox.let_through(2_000)
        await until(lambda: len(inbox.messages) == 2_000)
    assert Counter(inbox.values) == Counter(str(i) for i in range(2_000))


async def test_expired_messages_raise_an_alert_and_are_skipped_K8(settings: KafkaSettings, producer: Producer) -> None:
    """The log now begins past the group's offset: it goes on at the earliest message, and says so."""
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(10))
    async with running(member := consumer(settings, Inbox(), producer)):
        await until(lambda: list(member.assignment().values()) == [10])
    await producer.publish(numbered(50))
    await delete_before(settings, 40)
    inbox, observer = Inbox(), Observer()
    async with running(consumer(settings, inbox, producer, observer=observer)):
        await until(lambda: len(inbox.messages) == 20)
    assert [message.offset for message in inbox.messages] == list(range(40, 60))
    assert ("offsets_lost", "t") in observer.events


async def test_a_group_without_offsets_on_a_topic_with_a_past_raises_an_alert_K8(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(20))
    await delete_before(settings, 15)
    inbox, observer = Inbox(), Observer()
    async with running(consumer(settings, inbox, producer, observer=observer)):
        await until(lambda: len(inbox.messages) == 5)
    assert ("offsets_lost", "t") in observer.events


async def test_a_new_group_on_a_new_topic_raises_none_K8(settings: KafkaSettings, producer: Producer) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(5))
    inbox, observer = Inbox(), Observer()
    async with running(consumer(settings, inbox, producer, observer=observer)):
        await until(lambda: len(inbox.messages) == 5)
    assert "offsets_lost" not in observer.kinds()


async def test_an_emptied_topic_is_read_from_its_new_beginning_K8(settings: KafkaSettings, producer: Producer) -> None:
    """The topic is deleted and made anew under a running consumer: what comes then is worked on and committed."""
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(30))
    inbox, observer = Inbox(), Observer()
    async with running(member := consumer(settings, inbox, producer, observer=observer)):
        await until(lambda: len(inbox.messages) == 30)
        await asyncio.to_thread(delete_topic, settings)
        await create_topics(settings, t=1)
        async with Producer.open(settings, name="afterwards") as fresh:
            await fresh.publish(numbered(3))
        await until(lambda: len(inbox.messages) == 33, within_sec=60.0)
        await until(lambda: list(member.assignment().values()) == [3])
    assert await committed(settings) == [3]


async def delete_before(settings: KafkaSettings, offset: int) -> None:
    def delete() -> None:
        admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
        for future in admin.delete_records([TopicPartition(settings.names.full("t"), 0, offset)]).values():
            future.result(timeout=10.0)

    await asyncio.to_thread(delete)


def delete_topic(settings: KafkaSettings) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    name = settings.names.full("t")
    admin.delete_topics([name])[name].result(timeout=10.0)
    for _ in range(100):
        if name not in admin.list_topics(timeout=10.0).topics:
            return
        admin.poll(0.05)
