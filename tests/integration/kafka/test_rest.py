"""A consumer that is told to rest: a paused lane's. It stays in its group, reads nothing and loses nothing."""

from collections import Counter

import pytest

from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import Inbox, committed, consumer, create_topics, numbered, running, until

pytestmark = pytest.mark.kafka


async def test_a_resting_consumer_hands_nothing_out_and_goes_on_where_it_was(
    settings: KafkaSettings, producer: Producer
) -> None:
    """A lane that is paused keeps its hints: what is buffered and what comes meanwhile waits, and is read once."""
    await create_topics(settings, t=2, t_dlq=1)
    rests = True
    inbox = Inbox()
    member = consumer(settings, inbox, producer, resting=lambda: rests)
    await producer.publish(numbered(50))
    async with running(member):
        await until(lambda: len(member.paused()) == 2)
        await producer.publish(numbered(50))
        assert inbox.started == 0
        rests = False
        await until(lambda: len(inbox.messages) == 100)
        await until(lambda: not member.paused())
    assert Counter(inbox.values) == Counter({str(i): 2 for i in range(50)})


async def test_what_rests_is_neither_lost_nor_committed_over_a_restart(
    settings: KafkaSettings, producer: Producer
) -> None:
    await create_topics(settings, t=1, t_dlq=1)
    await producer.publish(numbered(20))
    inbox = Inbox()
    member = consumer(settings, inbox, producer, resting=lambda: True)
    async with running(member):
        await until(lambda: len(member.paused()) == 1)
    assert await committed(settings) == [-1001]
    async with running(consumer(settings, inbox, producer)):
        await until(lambda: len(inbox.messages) == 20)


async def test_a_resting_consumer_rests_on_what_a_rebalance_brings_it_K5(
    settings: KafkaSettings, producer: Producer
) -> None:
    """A lane is paused; a worker leaves; the other one gets its partitions and reads none of them."""
    await create_topics(settings, t=4, t_dlq=1)
    await producer.publish(numbered(80))
    rests = True
    inbox = Inbox()
    first, second = (consumer(settings, inbox, producer, resting=lambda: rests) for _ in range(2))
    async with running(first):
        async with running(second):
            await until(lambda: len(first.paused()) == len(second.paused()) == 2)
        await until(lambda: len(first.paused()) == 4)
        assert inbox.started == 0
        rests = False
        await until(lambda: len(inbox.messages) == 80)
