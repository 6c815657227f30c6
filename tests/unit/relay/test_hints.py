from uuid import UUID

from services.relay.hints import bounds, delivery_record, request_record
from shared.core.lifecycle import NotificationState
from shared.wire.channel import DEFAULT_CHANNELS, MessageClass
from shared.wire.message import DeliveryHint, RequestHint, decode

ID = UUID("019bc000-0000-7000-8000-000000000001")
TARGET = b"\x01" * 32


def notification(**changed: object) -> dict[str, object]:
    return {
        "id": ID,
        "state": NotificationState.ACCEPTED,
        "message_class": MessageClass.TX,
        "user_id": 42,
        "traceparent": None,
    } | changed


def delivery(**changed: object) -> dict[str, object]:
    return {
        "notification_id": ID,
        "channel": "SMS",
        "target_key": TARGET,
        "attempt": 2,
        "message_class": MessageClass.CRITICAL,
        "campaign_id": None,
        "chunk": None,
        "user_id": None,
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    } | changed


def test_a_notification_goes_to_its_classes_topic_under_its_user() -> None:
    record = request_record(notification())

    assert (record.topic, record.key) == ("notification-requests-tx", b"42")
    assert decode(RequestHint, record.value) == RequestHint(ID)


def test_low_shares_the_bulk_topic() -> None:
    assert request_record(notification(message_class=MessageClass.LOW)).topic == "notification-requests-bulk"


def test_a_login_code_without_a_user_goes_to_the_otp_lane_under_its_own_id() -> None:
    record = delivery_record(delivery(), DEFAULT_CHANNELS)

    assert record is not None
    assert (record.topic, record.key) == ("otp-sms", str(ID).encode())
    hint = decode(DeliveryHint, record.value)
    assert (hint.attempt, hint.target_key, hint.not_before) == (2, TARGET, None)
    assert dict(record.headers)["traceparent"].startswith(b"00-0af7")


def test_another_attempt_than_the_rows_can_be_named() -> None:
    record = delivery_record(delivery(), DEFAULT_CHANNELS, attempt=3)

    assert record is not None
    assert decode(DeliveryHint, record.value).attempt == 3


def test_a_channel_that_is_not_installed_has_no_lane() -> None:
    assert delivery_record(delivery(channel="PIGEON"), DEFAULT_CHANNELS) is None


def test_bounds_are_the_smallest_and_largest_id() -> None:
    low, high = UUID(int=1), UUID(int=9)

    assert bounds([high, low, UUID(int=5)]) == (low, high)
    assert bounds([]) == (UUID(int=0), UUID(int=0))
