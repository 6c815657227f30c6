"""Every topic is declared once, with a retention that fits what it carries."""

import re

import pytest

from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.topic import TopicNames, declared_topics, notification_requests

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TOPICS = {topic.name: topic for topic in declared_topics()}


def test_each_once_and_with_a_name_that_kafka_takes() -> None:
    names = [topic.name for topic in declared_topics()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z0-9-]{1,200}", name) for name in names)


def test_the_topics_of_the_plan() -> None:
    assert {
        "domain-events", "notification-requests-critical", "notification-requests-tx", "notification-requests-bulk",
        "otp-sms", "otp-sms-retry-5s", "otp-sms-dlq", "sms-tx", "sms-bulk", "push-critical", "push-tx", "push-bulk",
        "push-tx-retry-10m", "email-critical", "email-tx", "email-bulk", "email-low", "email-tx-dlq",
        "delivery-receipts", "delivery-events", "router-dlq", "receipts-dlq",
    } <= TOPICS.keys()  # fmt: skip


def test_every_lane_has_its_topic_tiers_and_dead_letters() -> None:
    for lane in DEFAULT_CHANNELS.lanes:
        assert {lane.topic, lane.dlq_topic, *lane.retry_topics} <= TOPICS.keys()


def test_a_retry_topic_outlives_its_delay() -> None:
    for lane in DEFAULT_CHANNELS.lanes:
        for tier in lane.tiers:
            assert TOPICS[lane.retry_topic(tier)].retention_ms >= 2 * tier * 1000


@pytest.mark.parametrize(
    ("name", "most_ms"), [("otp-sms", HOUR_MS), ("domain-events", 3 * DAY_MS), ("delivery-receipts", DAY_MS)]
)
def test_what_is_personal_or_short_lived_is_kept_briefly(name: str, most_ms: int) -> None:
    assert TOPICS[name].retention_ms <= most_ms


def test_partitions_are_capped_where_asked() -> None:
    capped = declared_topics(max_partitions=2)
    assert {topic.partitions for topic in capped} == {2}
    assert [topic.name for topic in capped] == [topic.name for topic in declared_topics()]


def test_partitions_of_the_plan() -> None:
    assert TOPICS["push-tx"].partitions == 24
    assert TOPICS["push-tx-retry-1m"].partitions == 3
    assert TOPICS["push-tx-dlq"].partitions == 3


@pytest.mark.parametrize(
    ("message_class", "name"),
    [
        (MessageClass.CRITICAL, "notification-requests-critical"),
        (MessageClass.TX, "notification-requests-tx"),
        (MessageClass.BULK, "notification-requests-bulk"),
        (MessageClass.LOW, "notification-requests-bulk"),
    ],
)
def test_request_topics(message_class: MessageClass, name: str) -> None:
    assert notification_requests(message_class) == name


def test_prefix() -> None:
    names = TopicNames("blue-")
    assert names.full("push-tx") == "blue-push-tx"
    assert names.bare("blue-push-tx") == "push-tx"
    assert TopicNames().full("push-tx") == "push-tx"
    with pytest.raises(ValueError, match="blue-"):
        names.bare("push-tx")
