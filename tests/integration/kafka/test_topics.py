"""Topics on a real broker: created once, compared, never altered."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

from ops.cli.topics import app
from shared.kafka.error import TopicAdminError
from shared.kafka.settings import KafkaSettings
from shared.kafka.topics import Difference, TopicReport, apply, check
from shared.wire.topic import TopicSpec, declared_topics

pytestmark = pytest.mark.kafka

SPECS = (TopicSpec("a", 2, 3_600_000), TopicSpec("b", 1, 7_200_000))


async def test_apply_creates_what_is_missing_once(settings: KafkaSettings) -> None:
    a, b = (settings.names.full(spec.name) for spec in SPECS)
    assert await check(settings, SPECS) == TopicReport(missing=(a, b))
    assert await apply(settings, SPECS[:1], replication_factor=1) == TopicReport(created=(a,))
    assert await apply(settings, SPECS) == TopicReport(created=(b,), unchanged=(a,))
    assert (await check(settings, SPECS)).as_declared


async def test_a_topic_that_differs_is_told_and_left_alone(settings: KafkaSettings) -> None:
    await apply(settings, SPECS)
    changed = (TopicSpec("a", 5, 1_000), SPECS[1])
    report = await apply(settings, changed)
    name = settings.names.full("a")
    assert report.created == ()
    assert report.differing == (
        Difference(name, "partitions", "5", "2"),
        Difference(name, "retention.ms", "1000", "3600000"),
    )
    assert await check(settings, changed) == report
    assert (await check(settings, SPECS)).as_declared


async def test_two_at_once_are_safe(settings: KafkaSettings) -> None:
    await asyncio.gather(*(apply(settings, SPECS) for _ in range(3)))
    assert (await check(settings, SPECS)).as_declared


async def test_a_replication_factor_above_the_brokers_says_what_to_do(settings: KafkaSettings) -> None:
    with pytest.raises(TopicAdminError, match="--replication-factor"):
        await apply(settings, SPECS, replication_factor=9)


async def test_no_broker_names_the_setting(settings: KafkaSettings) -> None:
    nobody = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1", "request_timeout_sec": 0.5})
    with pytest.raises(TopicAdminError, match="ULAK_KAFKA_BOOTSTRAP_SERVERS"):
        await check(nobody, SPECS)


def test_the_commands_create_and_judge_every_declared_topic(settings: KafkaSettings) -> None:
    environment = {
        "ULAK_KAFKA_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "ULAK_KAFKA_TOPIC_PREFIX": settings.topic_prefix,
    }
    names = [settings.names.full(spec.name) for spec in declared_topics()]
    runner = CliRunner()
    before = runner.invoke(app, ["check", "--json"], env=environment)
    assert before.exit_code == 1
    assert json.loads(before.stdout)["missing"] == names
    made = runner.invoke(
        app, ["apply", "--max-partitions", "1", "--replication-factor", "1", "--json"], env=environment
    )
    assert made.exit_code == 0
    assert json.loads(made.stdout)["created"] == names
    assert runner.invoke(app, ["check", "--max-partitions", "1"], env=environment).exit_code == 0
    told = runner.invoke(app, ["check"], env=environment)
    assert told.exit_code == 1
    assert "partitions is 1, declared is 24" in " ".join(told.stdout.split())
