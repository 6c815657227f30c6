"""What is sent, when it is sent again, and what answers mean. Over sockets: tests/integration/client/test_http.py."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulak_client import Attachment, Email
from ulak_client.http import (
    Accepted,
    FieldError,
    Notification,
    OneTimePassword,
    Recipient,
    RetryPolicy,
    TryLaterError,
    UlakClient,
    UlakError,
)
from ulak_client.http import request as requests
from ulak_client.http.retry import retry_after_sec

from services.ingest.email_model import EmailBody
from services.ingest.model import NotificationRequest, OtpRequest

NOW = datetime(2026, 11, 11, 10, 0, 0, tzinfo=UTC)
FULL = Notification(
    user_id=7,
    type="ORDER_SHIPPED",
    params={"carrier": "Kargo A"},
    event_id="order-98213-SHIPPED",
    priority="bulk",
    event_time=NOW.astimezone(timezone(timedelta(hours=3))),
    business_key="98213",
    channels=["PUSH"],
    send_at=NOW,
    expires_at=NOW + timedelta(hours=1),
    collapse_key="order",
    recipient=Recipient(email="a@example.com", phone="+905321234567", locale="tr-TR", time_zone="Europe/Istanbul"),
)


def body_of(call: requests.Request[Any]) -> Any:
    assert call.body is not None
    return json.loads(call.body)


def test_a_notification_is_one_that_ulaks_model_takes_whole() -> None:
    read = NotificationRequest.model_validate_json(requests.notify(FULL).body or b"")
    assert read.event_time == NOW
    assert read.model_dump(exclude={"recipient", "event_time"}) == {
        "event_id": "order-98213-SHIPPED",
        "user_id": "7",
        "type": "ORDER_SHIPPED",
        "params": {"carrier": "Kargo A"},
        "priority": "bulk",
        "business_key": "98213",
        "channels": ["PUSH"],
        "send_at": NOW,
        "expires_at": NOW + timedelta(hours=1),
        "collapse_key": "order",
    }
    assert read.recipient is not None
    assert read.recipient.time_zone == "Europe/Istanbul"


def test_a_one_time_password_is_one_that_ulaks_model_takes_whole() -> None:
    password = OneTimePassword(
        phone="+905321234567", code="482913", expires_in=timedelta(minutes=3), user_id=7, locale="tr", purpose="login"
    )
    read = OtpRequest.model_validate_json(requests.send_otp(password).body or b"")
    assert read.request_id == password.request_id
    assert (read.phone, read.code, read.expires_in_seconds) == ("+905321234567", "482913", 180)
    assert (read.user_id, read.locale, read.purpose) == ("7", "tr", "login")


def test_an_email_is_one_that_ulaks_model_takes_whole() -> None:
    mail = Email(
        to=["Ayşe <a@example.com>"],
        cc=["c@example.com"],
        bcc=["b@example.com"],
        template="INVOICE",
        type="INVOICE_READY",
        parameters={"no": 1},
        priority="low",
        locale="tr-TR",
        user_id="7",
        attachments=[Attachment("a.pdf", "application/pdf", "s3://files/a.pdf", "cid")],
        expires_in=timedelta(seconds=90.5),
        model="A",
    )
    read = EmailBody.model_validate_json(requests.send_email(mail, "invoice-1").body or b"")
    assert read.model_dump() == {
        "to": ["Ayşe <a@example.com>"],
        "cc": ["c@example.com"],
        "bcc": ["b@example.com"],
        "template": "INVOICE",
        "type": "INVOICE_READY",
        "parameters": {"no": 1},
        "priority": "low",
        "locale": "tr-TR",
        "user_id": "7",
        "attachments": [
            {
                "filename": "a.pdf",
                "content_type": "application/pdf",
                "storage_ref": "s3://files/a.pdf",
                "content_id": "cid",
            }
        ],
        "expires_in_seconds": 91,
        "model": "A",
        "idempotency_key": "invoice-1",
    }


def test_an_email_says_no_more_than_it_was_told() -> None:
    sent = body_of(requests.send_email(Email(to=["a@example.com"], template="T"), "k"))
    assert sent == {"to": ["a@example.com"], "template": "T", "parameters": {}, "idempotencyKey": "k"}


def test_an_id_that_was_not_given_is_drawn_once() -> None:
    one, other = Notification(user_id=7, type="T"), Notification(user_id=7, type="T")
    assert one.event_id != other.event_id
    assert body_of(requests.notify(one)) == body_of(requests.notify(one))
    mail = Email(to=["a@example.com"], template="T")
    keys = {body_of(requests.send_email(mail, None))["idempotencyKey"] for _ in range(2)}
    assert len(keys) == 2


def test_a_time_without_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        requests.notify(Notification(user_id=7, type="T", send_at=datetime(2026, 1, 1)))  # noqa: DTZ001  that is it


def test_ids_are_quoted_in_paths() -> None:
    assert requests.get("ntf_1/../x?y").path == "/internal/v1/notifications/ntf_1%2F..%2Fx%3Fy"


@pytest.mark.parametrize(
    "shown",
    [
        FULL,
        requests.notify(FULL),
        OneTimePassword(phone="+905321234567", code="482913", expires_in=timedelta(minutes=3)),
    ],
)
def test_repr_shows_no_recipient_no_code_and_no_parameter(shown: object) -> None:
    for secret in ("a@example.com", "5321234567", "482913", "Kargo A"):
        assert secret not in repr(shown)


@pytest.mark.parametrize("key", ["", "ulak_live_ı", "ulak\r\nx: y"])
def test_an_api_key_that_is_none_is_refused_without_it(key: str) -> None:
    with pytest.raises(ValueError, match="not one that `ulak api-keys create` printed"):
        UlakClient("http://ulak.example", key)


def answered(status: int, content: bytes, retry_after: float | None = None) -> Accepted:
    return requests.notify(FULL).answer(status, content, retry_after)


def test_a_success_is_read() -> None:
    assert answered(202, b'{"notificationId": "ntf_1"}') == Accepted("ntf_1", repeated=False)
    assert answered(200, b'{"notificationId": "ntf_1", "priority": {"requested": "critical", "applied": "tx"}}') == (
        Accepted("ntf_1", repeated=True, applied_priority="tx")
    )


def test_a_refusal_tells_code_detail_and_fields() -> None:
    problem = {
        "type": "urn:ulak:problem:invalid-request",
        "title": "The request has invalid fields",
        "status": 422,
        "code": "invalid_request",
        "detail": "Correct the fields.",
        "errors": [{"path": "params.orderNo", "detail": "is missing"}, {"path": "userId"}],
    }
    with pytest.raises(UlakError) as refused:
        answered(422, json.dumps(problem).encode())
    error = refused.value
    assert not isinstance(error, TryLaterError)
    assert (error.status, error.code, error.detail) == (422, "invalid_request", "Correct the fields.")
    assert error.errors == (FieldError("params.orderNo", "is missing"), FieldError("userId"))
    assert error.request_key == "order-98213-SHIPPED"
    assert str(error) == "422 invalid_request: Correct the fields.; params.orderNo: is missing; userId"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_not_now_is_an_error_of_its_own(status: int) -> None:
    with pytest.raises(TryLaterError) as refused:
        answered(status, b"<html>Bad Gateway</html>", 2.0)
    assert (refused.value.code, refused.value.retry_after_sec) == ("not_ulaks_answer", 2.0)


@pytest.mark.parametrize(
    ("status", "content"),
    [(202, b"<html>"), (202, b"{}"), (202, b"null"), (204, b""), (302, b""), (404, b"Not Found"), (500, b'["x"]')],
)
def test_an_answer_that_is_not_ulaks_says_where_to_look(status: int, content: bytes) -> None:
    with pytest.raises(UlakError, match="check base_url"):
        answered(status, content)


def test_a_batch_is_answered_item_by_item() -> None:
    items = [FULL, Notification(user_id=8, type="T", event_id="2"), Notification(user_id=9, type="T", event_id="3")]
    results = requests.notify_batch(items).answer(
        200,
        json.dumps(
            {
                "results": [
                    {"status": 202, "notificationId": "ntf_1"},
                    {"status": 422, "problem": {"code": "unknown_type", "detail": "Push it."}},
                    {"status": 503, "problem": {"code": "temporarily_unavailable", "detail": "Again."}},
                ]
            }
        ).encode(),
        None,
    )
    assert results[0].accepted == Accepted("ntf_1", repeated=False)
    assert [(r.error.code, r.error.request_key) for r in results if r.error] == [
        ("unknown_type", "2"),
        ("temporarily_unavailable", "3"),
    ]
    assert isinstance(results[2].error, TryLaterError)


@pytest.mark.parametrize(
    ("tried", "asked", "jitter", "expected"),
    [
        (1, None, 0.0, 0.1),
        (1, None, 1.0, 0.2),
        (3, None, 1.0, 0.8),
        (30, None, 1.0, 5.0),
        (1, 7.0, 0.0, 7.1),
        (1, 7.0, 1.0, 7.2),
    ],
)
def test_the_wait_doubles_up_to_its_cap_and_never_undercuts_what_was_asked(
    tried: int, asked: float | None, jitter: float, expected: float
) -> None:
    policy = RetryPolicy(base_sec=0.2, cap_sec=5.0)
    assert policy.wait_sec(tried, asked, jitter) == pytest.approx(expected)


@given(st.integers(1, 1000), st.floats(0, 1))
def test_no_wait_is_longer_than_the_cap(tried: int, jitter: float) -> None:
    assert 0.1 <= RetryPolicy().wait_sec(tried, None, jitter) <= 5.0


def test_a_policy_without_a_try_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one try"):
        RetryPolicy(tries=0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("3", 3.0),
        (" 3 ", 3.0),
        ("Wed, 11 Nov 2026 10:00:30 GMT", 30.0),
        ("Wed, 11 Nov 2026 12:00:30 +0200", 30.0),
        ("Wed, 11 Nov 2026 09:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
        ("٣", None),
        ("", None),
    ],
)
def test_retry_after_in_both_its_forms(value: str | None, expected: float | None) -> None:
    assert retry_after_sec(value, NOW) == expected
