"""What becomes of a message when it is read: readable, delayed, poison, held."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from shared.kafka.reader import HOLD, Reader
from shared.kafka.record import Partition
from shared.wire.channel import MessageClass
from shared.wire.message import DeliveryHint, RequestHint, decode, encode

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
P0 = Partition("t", 0)
HINT = RequestHint(UUID("01890a5d-ac96-774b-bcce-b302099a8057"))


@dataclass
class Message:
    body: bytes | None
    extra: list[tuple[str, str | bytes | None]] = field(default_factory=list)

    def key(self) -> bytes | None:
        return b"key"

    def value(self) -> bytes | None:
        return self.body

    def offset(self) -> int:
        return 42

    def headers(self) -> list[tuple[str, str | bytes | None]] | None:
        return self.extra or None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_768_478_400_000


def request(value: bytes | None, headers: Mapping[str, bytes]) -> RequestHint:
    return decode(RequestHint, value, headers)


READER = Reader(request)


def test_a_readable_message_is_received_as_it_is() -> None:
    value, headers = encode(HINT)
    read = READER.entry(P0, Message(value, [*headers, ("empty", None)]), NOW)
    assert read.received is not None
    assert read.received.value == HINT
    assert (read.received.topic, read.received.partition, read.received.offset) == ("t", 0, 42)
    assert read.received.key == b"key"
    assert read.received.headers == {"ulak-type": b"notification-request", "ulak-schema": b"1", "empty": b""}
    assert read.received.timestamp == NOW
    assert (read.problem, read.held, read.due) == (None, False, None)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="null"),
        pytest.param(b"{not json", id="not-json"),
        pytest.param(b'{"v":1}', id="field-missing"),
        pytest.param(b'{"v":"x","notificationId":"1"}', id="version-of-wrong-type"),
    ],
)
def test_poison_is_told_by_its_class_K7(body: bytes | None) -> None:
    read = READER.entry(P0, Message(body), NOW)
    assert read.received is None
    assert read.problem is not None
    assert read.problem.reason == "MalformedMessageError"
    assert read.raw.value == body


def test_a_newer_schema_is_held_and_looked_at_again_K7() -> None:
    read = READER.entry(
        P0,
        Message(b'{"v":2,"notificationId":"1"}', [("ulak-type", b"notification-request"), ("ulak-schema", b"2")]),
        NOW,
    )
    assert (read.held, read.due, read.problem, read.received) == (True, NOW + HOLD, None, None)
    READER.read(read, NOW + HOLD)
    assert (read.held, read.due) == (True, NOW + 2 * HOLD)


def test_a_decoder_that_stumbles_does_not_stop_its_partition_nor_tell_content() -> None:
    def stumble(_value: bytes | None, _headers: Mapping[str, bytes]) -> int:
        raise RuntimeError("code 482913")

    read = Reader(stumble).entry(P0, Message(b"x"), NOW)
    assert read.problem is not None
    assert read.problem.reason == "RuntimeError"
    assert "482913" not in read.problem.detail


def test_a_delayed_message_says_when_it_is_due_K6() -> None:
    due = NOW + timedelta(seconds=10)
    hint = DeliveryHint(HINT.notification_id, "PUSH", b"\x01", 1, MessageClass.TX, not_before=due)

    def delivery(value: bytes | None, _headers: Mapping[str, bytes]) -> DeliveryHint:
        return decode(DeliveryHint, value)

    read = Reader(delivery, lambda value: value.not_before).entry(P0, Message(encode(hint)[0]), NOW)
    assert read.due == due
    assert not read.held
