"""Twilio's callbacks. The signature's example is the published one (Twilio, "Validating signatures from Twilio")."""

from urllib.parse import urlencode
from uuid import UUID

import pytest

from shared.core.lifecycle import ReceiptKind
from shared.core.receipt import CallbackRequest, ForgedError, UnreadableError, UnsignedError
from shared.core.reference import DeliveryKey
from shared.providers.sms.twilio.receipts import TwilioReceipts, signature

KEY = DeliveryKey(UUID("019bc000-0000-7000-8000-000000000001"), "SMS", b"\x07" * 32)
TOKEN = "12345"
READER = TwilioReceipts("https://hooks.example.com", (TOKEN,))
TARGET = "/callbacks/twilio?" + urlencode({"ref": KEY.reference, "attempt": 1})


def callback(
    *, target: str = TARGET, signed: str | None = None, headers: dict[str, str] | None = None, **fields: str
) -> CallbackRequest:
    given = {"MessageSid": "SM" + "0" * 32, "MessageStatus": "delivered"} | fields
    url = signed or f"https://hooks.example.com{target}"
    return CallbackRequest(
        target,
        {"x-twilio-signature": signature(TOKEN, url, given.items())} | (headers or {}),
        urlencode(given).encode(),
    )


def test_signature_is_the_published_examples() -> None:
    fields = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }

    assert signature("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", fields.items()) == (
        "RSOYDt4T1cUTdK1PDd93/VVr8B8="
    )


def test_order_of_the_fields_does_not_matter_and_a_repeated_one_counts_once() -> None:
    fields = [("To", "+1"), ("Body", "a b"), ("Body", "a b")]

    assert signature(TOKEN, "https://x", fields) == signature(TOKEN, "https://x", [("Body", "a b"), ("To", "+1")])


def test_a_signed_callback_is_believed() -> None:
    READER.verify(callback(From="+905321234567", Empty=""))


@pytest.mark.parametrize(
    "signed",
    [
        pytest.param(f"https://hooks.example.com:443{TARGET}", id="twilio-signed-with-the-port"),
        pytest.param(f"https://hooks.example.com{TARGET}", id="without"),
    ],
)
@pytest.mark.parametrize("public_url", ["https://hooks.example.com", "https://hooks.example.com:443/"])
def test_the_default_port_may_be_there_or_not_S5(signed: str, public_url: str) -> None:
    TwilioReceipts(public_url, (TOKEN,)).verify(callback(signed=signed))


def test_another_port_is_another_url_S5() -> None:
    with pytest.raises(ForgedError):
        READER.verify(callback(signed=f"https://hooks.example.com:8443{TARGET}"))


def test_host_and_forwarded_host_decide_nothing_S5() -> None:
    spoofed = {"host": "evil.test", "x-forwarded-host": "evil.test", "x-forwarded-proto": "http"}

    READER.verify(callback(headers=spoofed))
    with pytest.raises(ForgedError):
        READER.verify(callback(headers=spoofed, signed=f"https://evil.test{TARGET}"))


def test_both_tokens_are_taken_while_they_are_exchanged() -> None:
    TwilioReceipts("https://hooks.example.com", ("new", TOKEN)).verify(callback())


def test_a_changed_field_is_a_forgery() -> None:
    request = callback()

    with pytest.raises(ForgedError):
        READER.verify(CallbackRequest(request.target, request.headers, request.body.replace(b"delivered", b"failed")))


def test_a_changed_query_is_a_forgery() -> None:
    request = callback()

    with pytest.raises(ForgedError):
        READER.verify(CallbackRequest(TARGET.replace("attempt=1", "attempt=2"), request.headers, request.body))


def test_no_signature_is_told_from_a_wrong_one() -> None:
    with pytest.raises(UnsignedError):
        READER.verify(CallbackRequest(TARGET, {}, b"MessageSid=SM1"))


def test_a_signature_that_is_not_ascii_is_a_forgery() -> None:
    with pytest.raises(ForgedError):
        READER.verify(
            CallbackRequest(TARGET, {"x-twilio-signature": "ş\udcff".encode("utf-8", "replace").decode()}, b"")
        )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("accepted", ReceiptKind.PROGRESS),
        ("queued", ReceiptKind.PROGRESS),
        ("sending", ReceiptKind.PROGRESS),
        ("sent", ReceiptKind.PROGRESS),
        ("delivered", ReceiptKind.DELIVERED),
        ("read", ReceiptKind.DELIVERED),
        ("undelivered", ReceiptKind.UNDELIVERED),
        ("failed", ReceiptKind.UNDELIVERED),
        ("canceled", ReceiptKind.UNDELIVERED),
    ],
)
def test_statuses(status: str, kind: ReceiptKind) -> None:
    (receipt,) = READER.read(callback(MessageStatus=status))

    assert (receipt.key, receipt.attempt, receipt.kind) == (KEY, 1, kind)
    assert receipt.provider_message_id == "SM" + "0" * 32


@pytest.mark.parametrize(
    ("code", "suppress"),
    [
        pytest.param("21610", "opted_out", id="stop-word"),
        pytest.param("30003", None, id="unreachable-today"),
        pytest.param("30006", None, id="landline"),
    ],
)
def test_only_the_recipients_own_stop_suppresses_S7(code: str, suppress: str | None) -> None:
    (receipt,) = READER.read(callback(MessageStatus="undelivered", ErrorCode=code))

    assert (receipt.suppress, receipt.error_code, receipt.detail) == (suppress, code, f"undelivered {code}")


def test_the_same_status_again_is_the_same_statement_and_another_is_not() -> None:
    (first,) = READER.read(callback())
    (again,) = READER.read(callback())
    (other,) = READER.read(callback(MessageStatus="sent"))

    assert first.event_key == again.event_key
    assert first.event_key != other.event_key


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(callback(MessageStatus=""), id="no-status"),
        pytest.param(callback(MessageSid=""), id="no-message-id"),
        pytest.param(callback(MessageStatus="teleported"), id="unknown-status"),
        pytest.param(callback(target="/callbacks/twilio"), id="no-reference"),
        pytest.param(callback(target="/callbacks/twilio?ref=ntf_x.SMS.aa&attempt=1"), id="broken-reference"),
        pytest.param(callback(target=TARGET.replace("attempt=1", "attempt=one")), id="attempt-is-no-number"),
    ],
)
def test_what_cannot_be_read_says_why(request_: CallbackRequest) -> None:
    with pytest.raises(UnreadableError):
        READER.read(request_)


def test_a_request_survives_being_stored() -> None:
    request = callback(Body="çok güzel")
    stored = CallbackRequest.unpack(request.pack())

    assert (stored.target, stored.body) == (request.target, request.body)
    assert READER.read(stored) == READER.read(request)


@pytest.mark.parametrize("packed", [b"", b"[]", b'{"v": 2}', b'{"v": 1, "target": "/"}', b"\xff"])
def test_what_is_not_a_stored_request_is_unreadable(packed: bytes) -> None:
    with pytest.raises(UnreadableError):
        CallbackRequest.unpack(packed)
