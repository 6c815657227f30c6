"""Sentences: each from its rows, in the order of their times."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.ingest.explain import REASONS, explain, summary
from services.ingest.record import DeliveryRecord, LogRecord, NotificationRecord
from shared.core.lifecycle import Reason
from shared.wire.channel import MessageClass

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def notification(**changes: Any) -> NotificationRecord:
    values: dict[str, Any] = {
        "id": UUID(int=1),
        "event_id": "order-1",
        "user_id": "7",
        "type": "ORDER_SHIPPED",
        "state": "DECIDED",
        "message_class": MessageClass.TX,
        "mode": "live",
        "created_at": START,
        "event_time": None,
        "send_at": None,
        "expires_at": at(86_400),
        "cancelled_at": None,
        "business_key": None,
    }
    return NotificationRecord(**(values | changes))


def delivery(**changes: Any) -> DeliveryRecord:
    values: dict[str, Any] = {
        "channel": "SMS",
        "target_key": b"k",
        "target": "+90*******67",
        "status": "PENDING",
        "reason": None,
        "provider": None,
        "attempts": 0,
        "next_attempt_at": at(60),
        "cancel_requested": False,
        "created_at": at(1),
        "updated_at": at(1),
    }
    return DeliveryRecord(**(values | changes))


def entry(seconds: float, kind: str, result: str, **changes: Any) -> LogRecord:
    values: dict[str, Any] = {"channel": "SMS", "target_key": b"k", "attempt": None, "reason": None, "provider": None}
    return LogRecord(at=at(seconds), kind=kind, result=result, **(values | changes))


def test_every_reason_has_its_clause() -> None:
    assert set(REASONS) == set(Reason)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (entry(1, "verdict", "go"), "SMS to +90*******67 will be sent."),
        (
            entry(1, "verdict", "skip", reason="preference", target_key=b""),
            "SMS will not be sent, because the user switched this kind of message off on this channel.",
        ),
        (
            entry(1, "verdict", "defer", reason="quiet_hours"),
            "SMS to +90*******67 is held back, because it would have arrived in the user's quiet hours.",
        ),
        (
            entry(1, "attempt", "Transient", attempt=1, provider="twilio"),
            "SMS to +90*******67, attempt 1: twilio could not take it now.",
        ),
        (
            entry(1, "attempt", "provider_down", attempt=2, provider="twilio"),
            "SMS to +90*******67, attempt 2: twilio was not usable.",
        ),
        (entry(1, "attempt", "accepted", attempt=3), "SMS to +90*******67, attempt 3: the provider accepted it."),
        (
            entry(1, "receipt", "undelivered", attempt=1, reason="undelivered", provider="twilio"),
            (
                "SMS to +90*******67, attempt 1: twilio reports that it could not be delivered, "
                "because the provider could not deliver it."
            ),
        ),
        (
            entry(1, "duplicate", "other body", channel=""),
            "The same event came again (other body); nothing was sent for it.",
        ),
        (entry(1, "verdict", "new_word"), "SMS to +90*******67 new_word."),
    ],
)
def test_sentences(found: LogRecord, text: str) -> None:
    """A word this release does not know is passed on, not lost."""
    steps = explain(notification(), [delivery()], [found])
    assert text in [step.text for step in steps]


def test_steps_are_in_order_of_time() -> None:
    log = [entry(3, "attempt", "accepted", attempt=1), entry(1, "verdict", "go")]
    steps = explain(notification(cancelled_at=at(2)), [delivery(status="SENT", updated_at=at(3))], log)
    assert [step.at for step in steps] == [at(0), at(1), at(2), at(3)]
    assert [step.result for step in steps] == ["accepted", "go", "cancelled", "accepted"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "SMS to +90*******67 waits to be sent, at 2026-11-30 12:01:00+00:00 at the earliest."),
        (
            {"status": "SENDING", "provider": "twilio", "cancel_requested": True},
            "SMS to +90*******67 is being sent by twilio; it will not be tried again.",
        ),
        ({"status": "SENT", "provider": "twilio"}, "SMS to +90*******67: sent by twilio."),
        (
            {"status": "SKIPPED", "reason": "expired"},
            "SMS to +90*******67 was not sent, because its time to live had passed.",
        ),
    ],
)
def test_what_the_log_does_not_tell_the_row_does(changes: dict[str, Any], text: str) -> None:
    """Bulk lanes log no plain success (data.md), and what is open has no outcome yet."""
    steps = explain(notification(), [delivery(**changes)], [])
    assert steps[-1].text == text


@pytest.mark.parametrize(
    ("record", "deliveries", "text"),
    [
        (notification(state="ACCEPTED"), [], "It is accepted and waits to be decided."),
        (notification(state="CANCELLED"), [], "It was cancelled before anything was sent."),
        (
            notification(state="DEFERRED", send_at=at(3600)),
            [],
            "It waits until 2026-11-30 13:00:00+00:00, nothing has been sent.",
        ),
        (notification(), [delivery(status="DELIVERED")], "One delivery: 1 delivered."),
        (
            notification(),
            [delivery(status="SENT"), delivery(status="SENT"), delivery(status="SKIPPED")],
            "3 deliveries: 2 sent, 1 not sent.",
        ),
    ],
)
def test_summary(record: NotificationRecord, deliveries: list[DeliveryRecord], text: str) -> None:
    assert summary(record, deliveries) == text
