"""Differences are told, one line each."""

from shared.kafka.topics import Difference, ExistingTopic, TopicReport, compare, desired_configs
from shared.wire.topic import TopicSpec

SPECS = (TopicSpec("a", 3, 1000), TopicSpec("b", 2, 2000), TopicSpec("c", 1, 3000))
FULL = {spec.name: f"x-{spec.name}" for spec in SPECS}


def test_compare() -> None:
    existing = {
        "x-a": ExistingTopic(3, {"retention.ms": "1000", "cleanup.policy": "delete"}),
        "x-b": ExistingTopic(4, {"retention.ms": "2000", "cleanup.policy": "compact"}),
        "b": ExistingTopic(1, {}),
    }
    report = compare(SPECS, existing, FULL)
    assert report == TopicReport(
        missing=("x-c",),
        unchanged=("x-a",),
        differing=(
            Difference("x-b", "partitions", "2", "4"),
            Difference("x-b", "cleanup.policy", "delete", "compact"),
        ),
    )
    assert not report.as_declared
    assert report.to_dict()["as_declared"] is False


def test_with_three_replicas_two_must_have_a_message() -> None:
    assert desired_configs(SPECS[0], 3)["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in desired_configs(SPECS[0], 1)
