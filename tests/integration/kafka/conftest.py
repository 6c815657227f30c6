from collections.abc import AsyncIterator, Iterator

import pytest

from shared.kafka.producer import Producer
from shared.kafka.settings import KafkaSettings
from tests.integration.kafka.harness import delete_topics


@pytest.fixture
def settings(kafka_settings: KafkaSettings) -> Iterator[KafkaSettings]:
    """Time-outs as short as the broker allows."""
    yield kafka_settings.model_copy(
        update={
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "delivery_timeout_ms": 10_000,
            "missing_topic_timeout_ms": 500,
        }
    )
    delete_topics(kafka_settings)


@pytest.fixture
async def producer(settings: KafkaSettings) -> AsyncIterator[Producer]:
    async with Producer.open(settings, name="test") as opened:
        yield opened
