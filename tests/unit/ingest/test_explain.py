"""Sentences: each from its rows, in the order of their times."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.ingest.explain import explain, summary
from services.ingest.record import DeliveryRecord, LogRecord, NotificationRecord, notification_body
from shared.core.control import Pause, PauseKind
from shared.core.identifier import API_KEY, public_id
from shared.decision.wording import Language
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
            entry(1, "route", "to", provider="netgsm", detail="netgsm instead of twilio: drained since 12:00:00 UTC"),
            "SMS to +90*******67 goes through netgsm instead of twilio: drained since 12:00:00 UTC.",
        ),
        (
            entry(1, "route", "wait", detail="twilio: breaker open since 12:00:00 UTC, 10 failures in a row"),
            (
                "SMS to +90*******67 waits, for no provider takes it: twilio: breaker open since 12:00:00 UTC, "
                "10 failures in a row."
            ),
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
        (
            entry(1, "attempt", "file_unread", attempt=1, reason="attachment", provider="smtp", detail="1 is missing"),
            (
                "SMS to +90*******67, attempt 1: it did not go to smtp, because a file that it carries could not be "
                "read from storage. What was met: 1 is missing. Put the file where its reference leads, then send it "
                "again."
            ),
        ),
        (
            entry(1, "verdict", "fail", reason="render", detail="EMAIL tr v3: parameters missing: orderNo"),
            (
                "SMS to +90*******67 cannot be sent, because its template could not be filled in "
                "(EMAIL tr v3: parameters missing: orderNo). Repair the template (`ulak templates push`) or send what "
                "it needs, then send it again."
            ),
        ),
        (
            entry(1, "attempt", "permanent", attempt=1, reason="permanent", provider="smtp", detail="550 5.7.1 no"),
            ("SMS to +90*******67, attempt 1: smtp refused it for good, because the provider refuses it for good."),
        ),
        (
            entry(1, "operator", "requeue", detail="replay rpl_1, operator ayse"),
            "SMS to +90*******67: an operator or the caller asked for `requeue` (replay rpl_1, operator ayse).",
        ),
        (entry(1, "verdict", "new_word"), "SMS to +90*******67 new_word."),
    ],
)
def test_sentences(found: LogRecord, text: str) -> None:
    """An unknown word is passed on, not lost; what is ours to mend says how, and a provider's own words stay away."""
    steps = explain(notification(), [delivery()], [found], Language.ENGLISH)
    assert text in [step.text for step in steps]


def test_steps_are_in_order_of_time() -> None:
    log = [entry(3, "attempt", "accepted", attempt=1), entry(1, "verdict", "go")]
    steps = explain(
        notification(cancelled_at=at(2)), [delivery(status="SENT", updated_at=at(3))], log, Language.ENGLISH
    )
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
        (
            {"status": "FAILED", "reason": "render", "detail": "EMAIL tr v3: parameters missing: orderNo"},
            (
                "SMS to +90*******67: failed, because its template could not be filled in. What was met: "
                "EMAIL tr v3: parameters missing: orderNo. Repair the template (`ulak templates push`) or send what it "
                "needs, then send it again."
            ),
        ),
    ],
)
def test_what_the_log_does_not_tell_the_row_does(changes: dict[str, Any], text: str) -> None:
    """Bulk lanes log no plain success (data.md), and what is open has no outcome yet."""
    steps = explain(notification(), [delivery(**changes)], [], Language.ENGLISH)
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
        (
            notification(state="DEFERRED", send_at=at(3600), due_at=at(7200)),
            [],
            "It waits until 2026-11-30 14:00:00+00:00, nothing has been sent.",
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
    assert summary(record, deliveries, Language.ENGLISH) == text


def test_a_story_in_turkish() -> None:
    record = notification(send_at=at(3600), cancelled_at=at(5), mode="team")
    log = [
        entry(1, "verdict", "skip", channel="PUSH", target_key=b"", reason="preference"),
        entry(2, "attempt", "provider_down", attempt=2, provider="twilio"),
        entry(3, "receipt", "undelivered", attempt=2, reason="undelivered"),
        entry(4, "operator", "skip", reason="cancelled"),
    ]
    steps = explain(record, [delivery(status="SENDING", cancel_requested=True)], log, Language.TURKISH)
    assert [step.text for step in steps] == [
        (
            "ORDER_SHIPPED olarak kabul edildi, kullanıcı 7; olay order-1, sınıf tx, anahtar türü team, "
            "geçerlilik sonu 2026-12-01 12:00:00+00:00."
        ),
        "2026-11-30 13:00:00+00:00 tarihine kadar bekletiliyor, çünkü daha ileri bir zaman istendi.",
        "PUSH gönderilmeyecek, çünkü kullanıcı bu tür iletileri bu kanalda kapatmış.",
        "SMS (+90*******67), 2. deneme: twilio kullanılabilir durumda değildi.",
        (
            "SMS (+90*******67), 2. deneme: sağlayıcı iletinin teslim edilemediğini bildirdi, "
            "çünkü sağlayıcı iletiyi ulaştıramadı."
        ),
        "SMS (+90*******67): operatör ya da çağıran servis `skip` istedi, çünkü iptal edildi.",
        "İptal edildi; yeni bir gönderim başlatılmayacak.",
        "SMS (+90*******67) gönderiliyor; yeniden denenmeyecek.",
    ]


def test_summary_in_turkish() -> None:
    deliveries = [delivery(status="SENT"), delivery(status="SENT"), delivery(status="SKIPPED")]
    assert summary(notification(), deliveries, Language.TURKISH) == "3 gönderim: 2 gönderildi, 1 gönderilmedi."


def test_a_duplicate_names_the_notification_that_was_first() -> None:
    log = [entry(1, "verdict", "skip", reason="duplicate_content", detail="ntf_01kbapv8a4fevs0dqf3qx5kpkx")]
    for language in Language:
        texts = [step.text for step in explain(notification(), [], log, language)]
        assert sum("ntf_01kbapv8a4fevs0dqf3qx5kpkx" in text for text in texts) == 1


PAUSE = Pause(UUID(int=1), PauseKind.TYPE, "ORDER_SHIPPED", "wrong price", "operator ada", START)


def test_what_is_held_says_who_paused_what_and_why() -> None:
    (*_, last) = explain(notification(), [delivery(pause=PAUSE)], [], Language.ENGLISH)
    assert last.text == (
        "SMS to +90*******67 waits: type ORDER_SHIPPED is paused since 2026-11-30 12:00:00+00:00"
        " by operator ada, because: wrong price."
    )
    (*_, last) = explain(notification(), [delivery(pause=PAUSE)], [], Language.TURKISH)
    assert "ORDER_SHIPPED türü durduruldu" in last.text
    assert "wrong price" in last.text


def test_a_held_delivery_s_body_names_the_pause_and_a_key_by_its_public_id() -> None:
    key = UUID(int=7)
    held = delivery(pause=replace(PAUSE, kind=PauseKind.API_KEY, key=str(key)))
    (body,) = notification_body(notification(), [held])["deliveries"]
    assert body["pause"] == {
        "kind": "api_key",
        "name": public_id(API_KEY, key),
        "since": START,
        "by": "operator ada",
        "reason": "wrong price",
    }
    assert "pause" not in notification_body(notification(), [delivery()])["deliveries"][0]
