import pytest

from services.relay.topics import TopicDirectory
from shared.kafka.error import MissingTopicError


class Broker:
    def __init__(self, *topics: str) -> None:
        self.topics = frozenset(topics)
        self.asked = 0

    async def list(self) -> frozenset[str]:
        self.asked += 1
        return self.topics


async def test_known_topics_are_asked_for_once() -> None:
    broker = Broker("domain-events", "orders")
    directory = TopicDirectory(broker.list, declared=["domain-events"])

    assert await directory.unknown({"orders"}) == frozenset()
    assert await directory.unknown({"orders", "domain-events"}) == frozenset()
    assert broker.asked == 1


async def test_a_topic_that_nobody_declares_and_nobody_made_is_unknown() -> None:
    directory = TopicDirectory(Broker("domain-events").list, declared=["domain-events"])

    assert await directory.unknown({"domain-events", "typo-events"}) == {"typo-events"}


async def test_a_declared_topic_that_is_missing_is_the_installations_fault() -> None:
    directory = TopicDirectory(Broker().list, declared=["domain-events"])

    with pytest.raises(MissingTopicError, match="ulak topics apply"):
        await directory.unknown({"domain-events"})
