"""What goes to each provider: limits, fields, encodings. No sockets."""

import email
import email.policy
import importlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from shared.core.ports import Prepared, Reply
from shared.core.reference import DeliveryKey
from shared.providers.email.smtp.mime import build as mail
from shared.providers.push.apns.client import TransportCarrier
from shared.providers.push.apns.request import RefusedError
from shared.providers.push.apns.request import build as apns
from shared.providers.push.apns.token import ProviderToken
from shared.providers.push.fcm.request import build as fcm
from shared.providers.sms.twilio.client import form
from shared.providers.sms.twilio.settings import TwilioSettings
from shared.wire.channel import MessageClass

messaging: Any = importlib.import_module("firebase_admin.messaging")
MessageEncoder: Any = importlib.import_module("firebase_admin._messaging_encoder").MessageEncoder
"""The library's model and its own JSON form; neither has types."""

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
KEY = DeliveryKey(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), "PUSH", b"k" * 32)


def message(content: dict[str, str], **changes: Any) -> Prepared:
    base = Prepared(
        key=KEY,
        attempt=1,
        address="address",
        content=content,
        message_class=MessageClass.TX,
        expires_at=NOW + timedelta(hours=1),
    )
    return replace(base, **changes)


def push(title: str = "t", body: str = "b", **changes: Any) -> Prepared:
    return message({"title": title, "body": body}, **changes)


# ---------------------------------------------------------------- APNs


def test_apns_limit_counts_utf8_bytes_and_escapes_nothing_P7() -> None:
    frame = len(apns(push(body=""), "app").body)
    fits = push(body="ş" * ((4096 - frame) // 2))
    assert len(apns(fits, "app").body) in {4095, 4096}
    assert "ş".encode() in apns(fits, "app").body
    with pytest.raises(RefusedError, match="4,096"):
        apns(push(body="a" * (4097 - frame)), "app")


def test_apns_collapse_id_of_65_bytes_is_refused_P7() -> None:
    assert apns(push(collapse_key="ş" * 32), "app").headers["apns-collapse-id"] == "ş" * 32
    with pytest.raises(RefusedError, match="64 bytes"):
        apns(push(collapse_key="ş" * 32 + "a"), "app")


def test_apns_expiration_zero_is_sent_literally_P7() -> None:
    assert apns(push(expires_at=datetime(1970, 1, 1, tzinfo=UTC)), "app").headers["apns-expiration"] == "0"


def test_apns_headers() -> None:
    headers = apns(push(app_id="com.other"), "com.default").headers
    assert headers == {
        "apns-id": str(KEY.reference_uuid),
        "apns-topic": "com.other",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": str(int((NOW + timedelta(hours=1)).timestamp())),
    }
    assert apns(push(message_class=MessageClass.BULK), "com.default").headers["apns-priority"] == "5"


@given(st.text(max_size=200), st.text(max_size=1000))
def test_apns_body_is_json_that_says_the_same(title: str, body: str) -> None:
    payload = orjson.loads(apns(push(title, body), "app").body)
    assert payload["aps"]["alert"] == {"title": title, "body": body}


def _key_pem() -> str:
    return (
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode()
    )


def provider_token(clock: list[float]) -> ProviderToken:
    return ProviderToken(key_pem=_key_pem(), key_id="KEY0000001", team_id="TEAM000001", clock=lambda: clock[0])


def test_provider_token_is_made_again_after_forty_minutes_P4() -> None:
    clock = [1_000_000.0]
    token = provider_token(clock)
    first = token.current()
    assert jwt.get_unverified_header(first) == {"alg": "ES256", "kid": "KEY0000001", "typ": "JWT"}
    assert jwt.decode(first, options={"verify_signature": False}) == {"iss": "TEAM000001", "iat": 1_000_000}
    clock[0] += 40 * 60 - 1
    assert token.current() == first
    clock[0] += 1
    second = token.current()
    assert jwt.decode(second, options={"verify_signature": False})["iat"] == 1_000_000 + 2400


def test_expired_token_is_renewed_once_for_all_who_used_it_P4() -> None:
    clock = [1_000_000.0]
    token = provider_token(clock)
    old = token.current()
    clock[0] += 30 * 60
    renewed = {token.renewed(old) for _ in range(100)}
    assert len(renewed) == 1
    assert renewed != {old}


def test_young_token_that_is_refused_is_not_renewed_P4() -> None:
    clock = [1_000_000.0]
    token = provider_token(clock)
    old = token.current()
    clock[0] += 60
    assert token.renewed(old) is None


class Apple:
    """Refuses the first token as expired, then accepts."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.tokens: list[str] = []

    async def post(self, url: str, headers: Any, body: bytes, *, timeout_sec: float) -> Reply:
        self.tokens.append(headers["authorization"])
        if len(self.tokens) <= self.refusals:
            return Reply(403, {}, b'{"reason":"ExpiredProviderToken"}')
        return Reply(200, {"apns-id": "1"}, b"")


@pytest.mark.parametrize(("refusals", "status", "calls"), [(0, 200, 1), (1, 200, 2), (2, 403, 2)])
async def test_expired_provider_token_refreshes_once_and_sends_again_P4(refusals: int, status: int, calls: int) -> None:
    clock = [1_000_000.0]
    apple, token = Apple(refusals), provider_token(clock)
    token.current()
    clock[0] += 30 * 60
    reply = await TransportCarrier("https://apple", apple, token)(apns(push(), "app"), 5.0)
    assert (reply.status, len(apple.tokens)) == (status, calls)
    assert len(set(apple.tokens)) == calls


# ---------------------------------------------------------------- FCM


@pytest.mark.filterwarnings("ignore:Message.token is deprecated:DeprecationWarning")
@pytest.mark.parametrize("urgent", [True, False])
@pytest.mark.parametrize("collapse_key", [None, "order-1"])
def test_fcm_android_body_is_what_firebase_admin_makes(urgent: bool, collapse_key: str | None) -> None:
    sent = push(
        platform="ANDROID",
        collapse_key=collapse_key,
        message_class=MessageClass.TX if urgent else MessageClass.BULK,
    )
    model = messaging.Message(
        token="address",
        data={"notificationId": "ntf_01h455vb4pex5vsknk084sn02q", "reference": KEY.reference},
        notification=messaging.Notification(title="t", body="b"),
        android=messaging.AndroidConfig(
            priority="high" if urgent else "normal", ttl=timedelta(hours=1), collapse_key=collapse_key
        ),
    )
    assert fcm(sent, NOW)["message"] == MessageEncoder().default(model)


@pytest.mark.filterwarnings("ignore:Message.token is deprecated:DeprecationWarning")
def test_fcm_web_body_is_what_firebase_admin_makes() -> None:
    sent = message({"title": "t", "body": "b", "url": "https://shop.example/o/1"}, platform="WEB", collapse_key="k")
    model = messaging.Message(
        token="address",
        data={
            "notificationId": "ntf_01h455vb4pex5vsknk084sn02q",
            "reference": KEY.reference,
            "url": "https://shop.example/o/1",
        },
        notification=messaging.Notification(title="t", body="b"),
        webpush=messaging.WebpushConfig(
            headers={"TTL": "3600", "Urgency": "high", "Topic": "k"},
            fcm_options=messaging.WebpushFCMOptions(link="https://shop.example/o/1"),
        ),
    )
    assert fcm(sent, NOW)["message"] == MessageEncoder().default(model)


@pytest.mark.parametrize(("left", "ttl"), [(timedelta(days=60), "2419200s"), (timedelta(seconds=-5), "0s")])
def test_fcm_ttl_within_its_bounds(left: timedelta, ttl: str) -> None:
    assert fcm(push(expires_at=NOW + left), NOW)["message"]["android"]["ttl"] == ttl


def test_fcm_data_is_text_and_names_the_campaign() -> None:
    data = fcm(push(campaign_id=UUID(int=7)), NOW)["message"]["data"]
    assert data["campaignId"].startswith("cmp_")
    assert all(isinstance(value, str) for value in data.values())


# ---------------------------------------------------------------- Twilio


def twilio_settings(**changes: Any) -> TwilioSettings:
    values: dict[str, Any] = {
        "account_sid": "AC" + "0" * 32,
        "auth_token": SecretStr("secret"),
        "from_number": "+12025550123",
        "public_callback_url": "https://cb.example/",
    }
    return TwilioSettings(**(values | changes))


def test_twilio_form_carries_reference_attempt_and_life() -> None:
    sent = message({"text": "Şifreniz & kodunuz"}, address="+905321234567", attempt=3)
    fields = {name: values[0] for name, values in parse_qs(form(sent, twilio_settings(), NOW)).items()}
    callback = urlsplit(fields.pop("StatusCallback"))
    assert fields == {
        "To": "+905321234567",
        "Body": "Şifreniz & kodunuz",
        "ValidityPeriod": "3600",
        "From": "+12025550123",
    }
    assert callback.geturl().startswith("https://cb.example/callbacks/twilio?")
    assert parse_qs(callback.query) == {"ref": [KEY.reference], "attempt": ["3"]}


@pytest.mark.parametrize(("left_sec", "validity"), [(0.5, "1"), (180, "180"), (1e6, "36000")])
def test_twilio_validity_is_what_is_left_within_its_bounds(left_sec: float, validity: str) -> None:
    sent = message({"text": "x"}, expires_at=NOW + timedelta(seconds=left_sec))
    assert parse_qs(form(sent, twilio_settings(), NOW))["ValidityPeriod"] == [validity]


# ---------------------------------------------------------------- mail


def built(text: str = "Merhaba\n", subject: str = "Konu", html: str | None = None, **changes: Any) -> Any:
    content = {"subject": subject, "text": text} | ({} if html is None else {"html": html})
    sent = message(content, **{"address": "ayse@example.com", **changes})
    return mail(sent, from_address="no-reply@shop.example", from_name="Mağaza, A.Ş.", now=NOW)


def parsed(content: bytes) -> Any:
    return email.message_from_bytes(content, policy=email.policy.default)


def test_mail_headers_and_parts() -> None:
    made = parsed(built(html="<p>Şimdi</p>", subject="Siparişiniz\r\nBcc: x@example.com kargoda").content)
    assert made["From"] == '"Mağaza, A.Ş." <no-reply@shop.example>'
    assert made["To"] == "ayse@example.com"
    assert made["Subject"] == "Siparişiniz Bcc: x@example.com kargoda"
    assert made["Bcc"] is None
    assert made["Message-ID"] == f"<{KEY.reference}@shop.example>"
    assert made["X-Ulak-Reference"] == KEY.reference
    assert made["Auto-Submitted"] == "auto-generated"
    assert made["Date"].datetime == NOW
    assert made.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in made.iter_parts()] == ["text/plain", "text/html"]
    assert made.get_body(("html",)).get_content().strip() == "<p>Şimdi</p>"


def test_campaign_mail_is_not_auto_submitted() -> None:
    assert parsed(built(message_class=MessageClass.BULK).content)["Auto-Submitted"] is None


@pytest.mark.parametrize(
    ("address", "recipient", "smtputf8"),
    [
        ("ayse@example.com", "ayse@example.com", False),
        ("ayse@çiçek.example", "ayse@xn--iek-1lab.example", False),
        ("ayşe@example.com", "ayşe@example.com", True),
    ],
)
def test_non_ascii_addresses_E2(address: str, recipient: str, smtputf8: bool) -> None:
    made = built(address=address)
    assert (made.recipient, made.needs_smtputf8) == (recipient, smtputf8)
    assert f"To: {recipient}\r\n".encode() in made.content


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]) | st.just("\n"), max_size=400)


@given(TEXTS)
def test_text_arrives_identical_in_short_lines_E7(text: str) -> None:
    content = built(text=text + "\n" + "ş" * 3000 + "\n.\n").content
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    assert b"\n" not in content.replace(b"\r\n", b"")
    assert parsed(content).get_content().replace("\r\n", "\n") == text + "\n" + "ş" * 3000 + "\n.\n"
