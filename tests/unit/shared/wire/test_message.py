"""Messages read back as they were written; what cannot be read is poison, what is newer is held (K7)."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.wire.channel import MessageClass
from shared.wire.message import (
    DeliveryHint,
    MalformedMessageError,
    Message,
    NewerSchemaError,
    ReceiptMessage,
    RequestHint,
    WireError,
    decode,
    encode,
)

MOMENTS = st.datetimes(timezones=st.just(UTC))
COUNTS = st.integers(min_value=0, max_value=2**31 - 1)
HINTS = st.builds(
    DeliveryHint,
    notification_id=st.uuids(),
    channel=st.sampled_from(["SMS", "PUSH", "EMAIL"]),
    target_key=st.binary(max_size=32),
    attempt=COUNTS,
    message_class=st.sampled_from(MessageClass),
    not_before=st.none() | MOMENTS,
    campaign_id=st.none() | st.uuids(),
    chunk=st.none() | COUNTS,
)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(RequestHint, notification_id=st.uuids()),
    HINTS,
    st.builds(
        ReceiptMessage,
        receipt_id=st.uuids(),
        provider=st.sampled_from(["twilio", "smtp"]),
        received_at=MOMENTS,
        sealed=st.binary(max_size=64),
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

REQUEST = {"v": 1, "notificationId": "01890a5d-ac96-774b-bcce-b302099a8057"}
HINT = {**REQUEST, "channel": "SMS", "targetKey": "00ff", "attempt": 2, "class": "tx"}
RECEIPT = {
    "v": 1,
    "receiptId": "01890a5d-ac96-774b-bcce-b302099a8057",
    "provider": "twilio",
    "receivedAt": "2026-01-15T12:00:00+03:00",
    "sealed": "00ff",
}
NOTIFICATION_ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
MISSING = object()


@given(MESSAGES)
def test_roundtrip(message: Message) -> None:
    kind: Any = type(message)
    assert decode(kind, encode(message)[0]) == message


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (RequestHint, REQUEST, RequestHint(NOTIFICATION_ID)),
        (DeliveryHint, HINT, DeliveryHint(NOTIFICATION_ID, "SMS", b"\x00\xff", 2, MessageClass.TX)),
        (
            DeliveryHint,
            {**HINT, "notBefore": "2026-01-15T12:00:00+03:00", "campaignId": str(NOTIFICATION_ID), "chunk": 3},
            DeliveryHint(
                NOTIFICATION_ID, "SMS", b"\x00\xff", 2, MessageClass.TX,
                datetime(2026, 1, 15, 9, tzinfo=UTC), NOTIFICATION_ID, 3,
            ),
        ),
        (
            ReceiptMessage,
            RECEIPT,
            ReceiptMessage(NOTIFICATION_ID, "twilio", datetime(2026, 1, 15, 9, tzinfo=UTC), b"\x00\xff"),
        ),
    ],
)  # fmt: skip
def test_the_form_on_the_wire(kind: Any, body: dict[str, Any], message: Message) -> None:
    """Other releases read this form: a field may be added, none may change."""
    assert decode(kind, orjson.dumps(body)) == message
    assert decode(kind, encode(message)[0]) == message
    assert orjson.loads(encode(message)[0]).keys() == body.keys()


def test_headers_tell_type_and_version() -> None:
    _, headers = encode(RequestHint(NOTIFICATION_ID))
    assert headers == [("ulak-type", b"notification-request"), ("ulak-schema", b"1")]


@given(HINTS)
def test_a_hint_carries_ids_and_nothing_else(hint: DeliveryHint) -> None:
    assert orjson.loads(encode(hint)[0]).keys() <= {
        "v", "notificationId", "channel", "targetKey", "attempt", "class", "notBefore", "campaignId", "chunk"
    }  # fmt: skip


@pytest.mark.parametrize("kind", [RequestHint, DeliveryHint, ReceiptMessage])
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"\xff\xfe", id="not-utf8"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"7", id="number"),
        pytest.param(b'{"v":1} x', id="trailing"),
        pytest.param(b"[" * 100_000, id="deep"),
    ],
)
def test_what_is_no_json_object_is_poison_K7(kind: Any, value: bytes | None) -> None:
    with pytest.raises(MalformedMessageError):
        decode(kind, value)


@pytest.mark.parametrize("version", [MISSING, None, 0, -1, True, "1", 1.0, [1]])
def test_a_version_that_is_none_is_poison_K7(version: object) -> None:
    body = {key: value for key, value in {**REQUEST, "v": version}.items() if value is not MISSING}
    with pytest.raises(MalformedMessageError, match="version"):
        decode(RequestHint, orjson.dumps(body))


@pytest.mark.parametrize(
    ("kind", "good", "field", "value"),
    [
        (RequestHint, REQUEST, "notificationId", MISSING),
        (RequestHint, REQUEST, "notificationId", None),
        (RequestHint, REQUEST, "notificationId", "ntf_1"),
        (RequestHint, REQUEST, "notificationId", 7),
        (DeliveryHint, HINT, "channel", MISSING),
        (DeliveryHint, HINT, "channel", None),
        (DeliveryHint, HINT, "channel", 5),
        (DeliveryHint, HINT, "channel", ""),
        (DeliveryHint, HINT, "targetKey", MISSING),
        (DeliveryHint, HINT, "targetKey", "zz"),
        (DeliveryHint, HINT, "targetKey", "abc"),
        (DeliveryHint, HINT, "targetKey", 5),
        (DeliveryHint, HINT, "attempt", MISSING),
        (DeliveryHint, HINT, "attempt", -1),
        (DeliveryHint, HINT, "attempt", True),
        (DeliveryHint, HINT, "attempt", "1"),
        (DeliveryHint, HINT, "attempt", 1.5),
        (DeliveryHint, HINT, "class", MISSING),
        (DeliveryHint, HINT, "class", "vip"),
        (DeliveryHint, HINT, "class", 1),
        (DeliveryHint, HINT, "notBefore", "2026-01-15T12:00:00"),
        (DeliveryHint, HINT, "notBefore", "0001-01-01T00:00:00+23:59"),
        (DeliveryHint, HINT, "notBefore", 1768435200),
        (DeliveryHint, HINT, "notBefore", "soon"),
        (DeliveryHint, HINT, "campaignId", "x"),
        (DeliveryHint, HINT, "campaignId", 7),
        (DeliveryHint, HINT, "chunk", "7"),
        (DeliveryHint, HINT, "chunk", -1),
        (ReceiptMessage, RECEIPT, "receiptId", MISSING),
        (ReceiptMessage, RECEIPT, "provider", MISSING),
        (ReceiptMessage, RECEIPT, "provider", 5),
        (ReceiptMessage, RECEIPT, "receivedAt", "2026-01-15"),
        (ReceiptMessage, RECEIPT, "receivedAt", None),
        (ReceiptMessage, RECEIPT, "sealed", "x"),
        (ReceiptMessage, RECEIPT, "sealed", None),
    ],
)
def test_a_field_missing_or_wrong_is_poison_K7(kind: Any, good: dict[str, Any], field: str, value: object) -> None:
    body = {key: entry for key, entry in {**good, field: value}.items() if entry is not MISSING}
    with pytest.raises(MalformedMessageError):
        decode(kind, orjson.dumps(body))


@given(st.sampled_from([(RequestHint, REQUEST), (DeliveryHint, HINT), (ReceiptMessage, RECEIPT)]), st.data())
def test_whatever_a_field_holds_it_is_read_or_poison_K7(chosen: Any, data: st.DataObject) -> None:
    kind, good = chosen
    field = data.draw(st.sampled_from([*good, "notBefore", "campaignId", "chunk"]))
    try:
        decode(kind, orjson.dumps({**good, field: data.draw(JSON)}))
    except WireError:
        return


@given(st.binary(max_size=100) | JSON.map(orjson.dumps))
def test_any_bytes_are_read_or_poison_K7(value: bytes) -> None:
    kinds: list[Any] = [RequestHint, DeliveryHint, ReceiptMessage]
    for kind in kinds:
        try:
            decode(kind, value)
        except WireError:
            continue


@pytest.mark.parametrize(("kind", "good"), [(RequestHint, REQUEST), (DeliveryHint, HINT), (ReceiptMessage, RECEIPT)])
def test_a_newer_version_is_held_not_poison(kind: Any, good: dict[str, Any]) -> None:
    """Its fields may be anything: what our next release writes says so in its headers."""
    headers = {"ulak-type": kind.TYPE.encode(), "ulak-schema": b"2"}
    with pytest.raises(NewerSchemaError, match=r"version 2.*up to 1"):
        decode(kind, orjson.dumps({**good, "v": 2}), headers)
    with pytest.raises(NewerSchemaError):
        decode(kind, b'{"v": 2}', headers)


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        pytest.param(2, None, id="no-headers"),
        pytest.param(2, {"ulak-type": b"notification-request"}, id="no-version-in-the-headers"),
        pytest.param(2, {"ulak-type": b"delivery", "ulak-schema": b"2"}, id="another-type"),
        pytest.param(2, {"ulak-type": b"notification-request", "ulak-schema": b"3"}, id="another-version"),
        pytest.param(99, {"ulak-type": b"notification-request", "ulak-schema": b"99"}, id="no-next-release-of-ours"),
    ],
)
def test_a_high_version_that_is_not_our_next_release_is_poison_K7(
    version: int, headers: dict[str, bytes] | None
) -> None:
    """Held for ever it would stop its partition; nobody would come to read it."""
    with pytest.raises(MalformedMessageError, match="version"):
        decode(RequestHint, orjson.dumps({**REQUEST, "v": version}), headers)


def test_fields_that_a_newer_release_added_are_passed_over() -> None:
    assert decode(RequestHint, orjson.dumps({**REQUEST, "colour": "red"})) == RequestHint(NOTIFICATION_ID)


def test_times_are_compared_in_utc() -> None:
    east = datetime(2026, 1, 15, 12, tzinfo=timezone(timedelta(hours=3)))
    hint = DeliveryHint(NOTIFICATION_ID, "SMS", b"", 0, MessageClass.TX, not_before=east)
    assert decode(DeliveryHint, encode(hint)[0]).not_before == datetime(2026, 1, 15, 9, tzinfo=UTC)
