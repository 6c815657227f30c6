"""Unsafe options are refused where they are set, with the reason."""

import pytest
from pydantic import ValidationError

from shared.kafka.error import UnsafeOptionError
from shared.kafka.settings import KafkaSettings, consumer_options, producer_options


@pytest.mark.parametrize(
    "option",
    [
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "partition.assignment.strategy",
        "group.id",
    ],
)
def test_consumer_options_that_lose_messages_are_refused_K1(option: str) -> None:
    with pytest.raises((ValidationError, UnsafeOptionError), match=option):
        KafkaSettings(bootstrap_servers="k:1", consumer_options={option: True})


@pytest.mark.parametrize("option", ["enable.idempotence", "acks", "request.required.acks", "transactional.id"])
def test_producer_options_that_lose_messages_are_refused(option: str) -> None:
    with pytest.raises((ValidationError, UnsafeOptionError), match=option):
        KafkaSettings(bootstrap_servers="k:1", producer_options={option: "1"})


def test_an_unchecked_copy_is_refused_at_construction_of_the_client() -> None:
    sneaky = KafkaSettings(bootstrap_servers="k:1").model_copy(
        update={"consumer_options": {"enable.auto.commit": True}}
    )
    with pytest.raises(UnsafeOptionError, match=r"enable\.auto\.commit"):
        consumer_options(sneaky, "g")


def test_the_promises_are_in_the_options() -> None:
    settings = KafkaSettings(bootstrap_servers="k:1", topic_prefix="a-", consumer_options={"fetch.min.bytes": 10})
    consumer = consumer_options(settings, "workers")
    assert consumer["group.id"] == "a-workers"
    assert consumer["enable.auto.commit"] is False
    assert consumer["enable.auto.offset.store"] is False
    assert consumer["auto.offset.reset"] == "earliest"
    assert consumer["partition.assignment.strategy"] == "cooperative-sticky"
    assert consumer["fetch.min.bytes"] == 10
    producer = producer_options(settings, "relay")
    assert producer["enable.idempotence"] is True
    assert producer["acks"] == "all"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"session_timeout_ms": 10_000, "heartbeat_interval_ms": 5_000}, "HEARTBEAT_INTERVAL_MS"),
        ({"max_poll_interval_ms": 6_000}, "MAX_POLL_INTERVAL_MS"),
        ({"security_protocol": "sasl_ssl"}, "SASL_MECHANISM"),
        ({"topic_prefix": "white space"}, "topic_prefix"),
        ({"bootstrap_servers": ""}, "bootstrap_servers"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        KafkaSettings.model_validate({"bootstrap_servers": "k:1"} | values)


def test_secrets_reach_the_client_and_no_one_else() -> None:
    settings = KafkaSettings.model_validate(
        {
            "bootstrap_servers": "k:1",
            "security_protocol": "sasl_ssl",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "u",
            "sasl_password": "hunter2",
        }
    )
    assert producer_options(settings, "p")["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(settings)
