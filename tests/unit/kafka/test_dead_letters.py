"""Dead letters tell all that a replay needs, and one of them never stops a lane for good."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.kafka.dead_letters import DeadLetter, DeadLetterWriter, dead_letter_headers
from shared.kafka.error import PublishError
from shared.kafka.memory import InMemoryProducer

LETTER = DeadLetter(
    topic="push-tx",
    partition=3,
    offset=17,
    key=b"user",
    value=b"{broken",
    headers=[("traceparent", b"00-a-b-01"), ("odd", None)],
    error_class="MalformedMessageError",
    error_message="the value is not JSON",
    attempts=1,
    first_seen=datetime(2026, 1, 15, 12, tzinfo=UTC),
)


def test_headers_tell_where_it_was_and_why_it_died_K7() -> None:
    assert dead_letter_headers(LETTER, "1.2.3") == [
        ("traceparent", b"00-a-b-01"),
        ("odd", b""),
        ("ulak-dlq-topic", b"push-tx"),
        ("ulak-dlq-partition", b"3"),
        ("ulak-dlq-offset", b"17"),
        ("ulak-dlq-error-class", b"MalformedMessageError"),
        ("ulak-dlq-error-message", b"the value is not JSON"),
        ("ulak-dlq-attempts", b"1"),
        ("ulak-dlq-first-seen", b"2026-01-15T12:00:00+00:00"),
        ("ulak-dlq-service-version", b"1.2.3"),
    ]


def test_a_replayed_message_keeps_when_it_was_first_seen_and_adds_its_attempts() -> None:
    again = replace(
        LETTER,
        headers=dead_letter_headers(LETTER, "1.2.3"),
        attempts=2,
        offset=99,
        first_seen=datetime(2026, 2, 1, tzinfo=UTC),
    )
    headers = dead_letter_headers(again, "1.3.0")
    assert dict(headers)["ulak-dlq-attempts"] == b"3"
    assert dict(headers)["ulak-dlq-first-seen"] == b"2026-01-15T12:00:00+00:00"
    assert dict(headers)["ulak-dlq-offset"] == b"99"
    assert len(headers) == len(dict(headers))


def test_a_long_error_is_cut() -> None:
    headers = dict(dead_letter_headers(replace(LETTER, error_message="x" * 5_000), "1"))
    assert len(headers["ulak-dlq-error-message"]) == 1_000


async def test_key_and_value_are_kept() -> None:
    producer = InMemoryProducer()
    await DeadLetterWriter(producer, dlq_topic="push-tx-dlq", service_version="1").write([LETTER])
    (record,) = producer.on("push-tx-dlq")
    assert (record.key, record.value) == (b"user", b"{broken")


async def test_a_null_value_is_told_from_an_empty_one_K7() -> None:
    producer = InMemoryProducer()
    await DeadLetterWriter(producer, dlq_topic="d", service_version="1").write([replace(LETTER, value=None)])
    assert dict(producer.records[0].headers)["ulak-dlq-value"] == b"null"


async def test_values_with_personal_data_are_sealed() -> None:
    producer = InMemoryProducer()
    writer = DeadLetterWriter(producer, dlq_topic="router-dlq", service_version="1", seal=lambda value: value[::-1])
    await writer.write([LETTER])
    assert producer.records[0].value == b"nekorb{"
    assert dict(producer.records[0].headers)["ulak-dlq-sealed"] == b"1"


async def test_a_failed_write_is_the_caller_s_to_repeat() -> None:
    producer = InMemoryProducer()
    producer.fail_next("NOT_ENOUGH_REPLICAS")
    writer = DeadLetterWriter(producer, dlq_topic="d", service_version="1")
    with pytest.raises(PublishError):
        await writer.write([LETTER])
    await writer.write([LETTER])
    assert len(producer.records) == 1


async def test_a_value_too_large_for_the_topic_is_left_out_and_the_others_stay_K15() -> None:
    producer = InMemoryProducer()
    huge = replace(LETTER, offset=18, value=b"x" * 1_100_000)
    await DeadLetterWriter(producer, dlq_topic="d", service_version="1").write([LETTER, huge])
    assert [(dict(r.headers)["ulak-dlq-offset"], r.value) for r in producer.records] == [
        (b"17", b"{broken"),
        (b"18", b""),
    ]
    assert dict(producer.records[1].headers)["ulak-dlq-value"] == b"dropped"
