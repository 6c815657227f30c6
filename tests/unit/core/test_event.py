"""Events tell a change the same way each time, and nothing private."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from shared.core.event import delivery_event
from shared.core.lifecycle import DeliveryStatus, Reason
from shared.core.reference import DeliveryKey

KEY = DeliveryKey(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), "SMS", b"k" * 32)
AT = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)


def test_structured_cloudevent() -> None:
    key, value, headers = delivery_event(
        KEY, status=DeliveryStatus.FAILED, reason=Reason.EXHAUSTED, attempt=8, provider="twilio", at=AT
    )
    event = orjson.loads(value)
    assert key == b"01890a5d-ac96-774b-bcce-b302099a8057"
    assert headers == [("content-type", b"application/cloudevents+json")]
    assert event["specversion"] == "1.0"
    assert event["type"] == "ulak.delivery.failed.v1"
    assert event["source"] == "/ulak"
    assert event["subject"] == "ntf_01h455vb4pex5vsknk084sn02q"
    assert event["time"] == "2026-01-15T09:00:00+00:00"
    assert event["data"] == {
        "notificationId": "ntf_01h455vb4pex5vsknk084sn02q",
        "reference": KEY.reference,
        "channel": "SMS",
        "status": "FAILED",
        "reason": "exhausted",
        "attempt": 8,
        "provider": "twilio",
    }


def test_told_twice_it_is_equal_to_the_last_byte() -> None:
    first, second = (
        delivery_event(KEY, status=DeliveryStatus.SENT, reason=None, attempt=1, provider="twilio", at=AT)
        for _ in range(2)
    )
    assert first == second


def event_id(key: DeliveryKey, status: DeliveryStatus, attempt: int, at: datetime) -> str:
    _, value, _ = delivery_event(key, status=status, reason=None, attempt=attempt, provider="twilio", at=at)
    return str(orjson.loads(value)["id"])


def test_the_id_is_the_same_in_every_release() -> None:
    """Readers know an event by it, also one that another release has told them before."""
    assert event_id(KEY, DeliveryStatus.SENT, 1, AT) == "1526effc-fc3a-5d37-91f0-7e37029f2da1"


@pytest.mark.parametrize(
    ("key", "status", "attempt", "at"),
    [
        pytest.param(KEY, DeliveryStatus.SENT, 2, AT, id="attempt"),
        pytest.param(KEY, DeliveryStatus.DELIVERED, 1, AT, id="status"),
        pytest.param(KEY, DeliveryStatus.SENT, 1, AT + timedelta(microseconds=1), id="moment"),
        pytest.param(DeliveryKey(KEY.notification_id, "SMS", b"j" * 32), DeliveryStatus.SENT, 1, AT, id="target"),
        pytest.param(DeliveryKey(KEY.notification_id, "PUSH", b"k" * 32), DeliveryStatus.SENT, 1, AT, id="channel"),
    ],
)
def test_another_change_has_another_id(key: DeliveryKey, status: DeliveryStatus, attempt: int, at: datetime) -> None:
    assert event_id(key, status, attempt, at) != event_id(KEY, DeliveryStatus.SENT, 1, AT)
