"""What is published about which delivery, and where."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.router.__main__ import Inputs, parse_inputs
from services.router.notification import Owed
from services.router.publish import records
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.message import DeliveryHint, decode

NOW = datetime(2026, 11, 11, 7, 0, tzinfo=UTC)
ID = UUID("019a0000-0000-7000-8000-000000000001")
OWED = Owed(
    key=DeliveryKey(ID, "EMAIL", b"\x01" * 32),
    status=DeliveryStatus.PENDING,
    reason=None,
    attempt=0,
    message_class=MessageClass.TX,
    next_attempt_at=NOW,
    updated_at=NOW,
    user_id=7,
    traceparent=None,
)


@pytest.mark.parametrize(
    ("channel", "message_class", "topic"),
    [
        ("EMAIL", MessageClass.CRITICAL, "email-critical"),
        ("EMAIL", MessageClass.LOW, "email-low"),
        ("PUSH", MessageClass.TX, "push-tx"),
        ("PUSH", MessageClass.LOW, "push-bulk"),
        ("SMS", MessageClass.CRITICAL, "otp-sms"),
        ("SMS", MessageClass.LOW, "sms-bulk"),
    ],
)
def test_a_class_without_a_lane_uses_the_next_lower(channel: str, message_class: MessageClass, topic: str) -> None:
    (record,) = records(
        [OWED._replace(key=DeliveryKey(ID, channel, b"\x01"), message_class=message_class)], DEFAULT_CHANNELS, NOW
    )
    assert record.topic == topic


def test_a_hint_carries_ids_only() -> None:
    (record,) = records([OWED], DEFAULT_CHANNELS, NOW)
    assert decode(DeliveryHint, record.value) == DeliveryHint(ID, "EMAIL", b"\x01" * 32, 0, MessageClass.TX)
    assert record.key == b"7"


def test_without_a_user_the_key_is_the_notification() -> None:
    (record,) = records([OWED._replace(user_id=None)], DEFAULT_CHANNELS, NOW)
    assert record.key == str(ID).encode()


def test_what_waits_in_a_tier_says_until_when() -> None:
    later = NOW + timedelta(minutes=1)
    (record,) = records([OWED._replace(attempt=2, next_attempt_at=later)], DEFAULT_CHANNELS, NOW)
    hint = decode(DeliveryHint, record.value)
    assert (hint.attempt, hint.not_before) == (2, later)


def test_a_settled_delivery_is_told_as_its_event() -> None:
    skipped = OWED._replace(status=DeliveryStatus.SKIPPED, reason=Reason.PREFERENCE)
    (record,) = records([skipped], DEFAULT_CHANNELS, NOW)
    assert record.topic == "delivery-events"


@pytest.mark.parametrize(
    ("arguments", "inputs"),
    [
        (["--input", "all"], Inputs((MessageClass.CRITICAL, MessageClass.TX, MessageClass.BULK), events=True)),
        (["--input", "events"], Inputs((), events=True)),
        (["--input", "requests", "--class", "tx"], Inputs((MessageClass.TX,), events=False)),
    ],
)
def test_what_a_process_reads(arguments: list[str], inputs: Inputs) -> None:
    assert parse_inputs(arguments) == inputs
