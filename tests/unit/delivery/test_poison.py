"""Dead letters that lie in Kafka alone: which they are, and what is sent back."""

import hashlib
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from shared.core.replay import Verdict
from shared.core.sealing import KeyRing, UnknownKeyError
from shared.delivery.poison import dead_letter_topics, read_poison, sent_back
from shared.kafka.dead_letters import HEADER_SEALED, HEADER_VALUE, DeadLetter, dead_letter_headers, sealing
from shared.kafka.record import Record
from shared.kafka.retained import Retained
from shared.postgres.dead_letter import OPEN, Letter
from shared.runtime.keyring import FixedRingSource
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint, RequestHint, encode
from shared.wire.topic import DOMAIN_EVENTS, RECEIPTS_DLQ, ROUTER_DLQ, notification_requests

NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)
SEEN = datetime(2026, 1, 14, 9, tzinfo=UTC)
ID = UUID(int=7)
REQUESTS = notification_requests(MessageClass.TX)


def dead(topic: str, value: bytes | None, *extra: tuple[str, bytes], error: str = "MalformedMessageError") -> Retained:
    """As the writer leaves it, at partition 1, offset 40 of its dead-letter topic."""
    letter = DeadLetter(topic, 2, 17, b"user-7", value, [("traceparent", b"00-t")], error, "what is wrong", 1, SEEN)
    headers = dict([*dead_letter_headers(letter, "1.0"), *extra])
    return Retained(1, 40, letter.key, value or b"", headers)


def entered(topic: str, origin: str | None) -> Letter:
    values: dict[str, Any] = dict.fromkeys(("detail", "note", "run_id", "ended_by", "type_name", "provider", "attempt"))
    return Letter(
        topic=topic,
        fingerprint=b"f" * 32,
        notification_id=None,
        channel="",
        target_key=b"",
        error_class="x",
        state=OPEN,
        first_seen=SEEN,
        last_seen=NOW,
        origin_topic=origin,
        at=(1, 40),
        **values,
    )


def test_every_lane_has_its_topic_and_so_have_router_and_receipts() -> None:
    assert {"otp-sms-dlq", "email-bulk-dlq", ROUTER_DLQ, RECEIPTS_DLQ} <= set(dead_letter_topics())


HINT = encode(DeliveryHint(ID, "EMAIL", b"t" * 32, 8, MessageClass.TX))[0]
REQUEST = encode(RequestHint(ID))[0]


@pytest.mark.parametrize(
    ("topic", "origin", "value", "alone", "notification_id"),
    [
        pytest.param("email-tx-dlq", "email-tx", b"{", True, None, id="lane-unreadable-K7"),
        pytest.param("email-tx-dlq", "email-tx", None, True, None, id="lane-null-K7"),
        pytest.param("email-tx-dlq", "email-tx-retry-10s", HINT, False, None, id="lane-its-row-is-the-letter"),
        pytest.param(ROUTER_DLQ, DOMAIN_EVENTS, b"sealed", True, None, id="event"),
        pytest.param(ROUTER_DLQ, REQUESTS, REQUEST, True, ID, id="request-perhaps-with-letters-of-its-own"),
        pytest.param(ROUTER_DLQ, REQUESTS, b"[]", True, None, id="request-unreadable-K7"),
        pytest.param(RECEIPTS_DLQ, "delivery-receipts", b"sealed", True, None, id="receipt"),
    ],
)
def test_which_lie_in_kafka_alone(
    topic: str, origin: str, value: bytes | None, alone: bool, notification_id: UUID | None
) -> None:
    poison = read_poison(topic, dead(origin, value), NOW)
    assert (poison is not None) is alone
    if poison is not None:
        assert poison.fingerprint == hashlib.sha256(f"{origin}|2|17".encode()).digest()
        assert (poison.origin_topic, poison.partition, poison.offset) == (origin, 1, 40)
        assert (poison.error_class, poison.detail) == ("MalformedMessageError", "what is wrong")
        assert (poison.first_seen, poison.notification_id) == (SEEN, notification_id)


def test_written_twice_it_is_one_letter() -> None:
    first, second = (read_poison(ROUTER_DLQ, dead(DOMAIN_EVENTS, b"x"), NOW) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.fingerprint == second.fingerprint


def test_headers_that_are_nonsense_are_no_failure() -> None:
    message = Retained(0, 3, None, b"{", {"ulak-dlq-first-seen": b"yesterday", "ulak-dlq-error-class": b"\xff" * 99})
    poison = read_poison("email-tx-dlq", message, NOW)
    assert poison is not None
    assert (poison.first_seen, poison.origin_topic, len(poison.error_class)) == (NOW, "email-tx-dlq", 64)


def test_sent_back_with_what_counts_on(key_ring: KeyRing) -> None:
    message = dead("email-tx", b"{")
    back = sent_back(entered("email-tx-dlq", "email-tx"), message, key_ring)
    assert isinstance(back, Record)
    assert (back.topic, back.key, back.value) == ("email-tx", b"user-7", b"{")
    assert dict(back.headers) == {
        "traceparent": b"00-t",
        "ulak-dlq-attempts": b"1",
        "ulak-dlq-first-seen": SEEN.isoformat().encode(),
    }
    again = DeadLetter("email-tx", 0, 99, back.key, back.value, list(back.headers), "x", "y", 1, NOW)
    headers = dict(dead_letter_headers(again, "1.1"))
    assert (headers["ulak-dlq-attempts"], headers["ulak-dlq-first-seen"]) == (b"2", SEEN.isoformat().encode())


@pytest.mark.parametrize("topic", [ROUTER_DLQ, RECEIPTS_DLQ])
def test_a_sealed_value_is_opened_on_its_way_back(topic: str, key_ring: KeyRing) -> None:
    sealed = sealing(topic, FixedRingSource(key_ring))(b"a person's data")
    back = sent_back(entered(topic, "origin"), dead("origin", sealed, (HEADER_SEALED, b"1")), key_ring)
    assert isinstance(back, Record)
    assert back.value == b"a person's data"


def test_a_null_value_goes_back_as_one(key_ring: KeyRing) -> None:
    back = sent_back(entered("email-tx-dlq", "email-tx"), dead("email-tx", None), key_ring)
    assert isinstance(back, Record)
    assert back.value is None


def test_what_cannot_go_back(key_ring: KeyRing) -> None:
    letter = entered(ROUTER_DLQ, DOMAIN_EVENTS)
    assert sent_back(letter, None, key_ring) is Verdict.GONE
    assert sent_back(letter, dead(DOMAIN_EVENTS, b"", (HEADER_VALUE, b"dropped")), key_ring) is Verdict.UNREADABLE
    assert sent_back(letter, dead(DOMAIN_EVENTS, b"torn", (HEADER_SEALED, b"1")), key_ring) is Verdict.UNREADABLE


def test_a_key_that_is_not_here_is_asked_for(key_ring: KeyRing) -> None:
    other = KeyRing(active="k9", keys={"k9": b"9" * 32}, lookup_key=bytes(32))
    sealed = sealing(ROUTER_DLQ, FixedRingSource(other))(b"x")
    with pytest.raises(UnknownKeyError):
        sent_back(entered(ROUTER_DLQ, DOMAIN_EVENTS), dead(DOMAIN_EVENTS, sealed, (HEADER_SEALED, b"1")), key_ring)
