"""What goes to each provider: limits, fields, encodings. No sockets."""

import importlib
import re
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
from shared.providers.push.apns.client import TransportCarrier
from shared.providers.push.apns.request import ApnsRequest, RefusedError
from shared.providers.push.apns.request import build as build_apns
from shared.providers.push.apns.token import ProviderToken
from shared.providers.push.fcm.request import build as fcm
from shared.providers.push.fcm.request import is_too_large
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


def apns(message: Prepared, topic: str) -> ApnsRequest:
    return build_apns(message, topic, NOW)


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


# ---------------------------------------------------------------- what a template may say beside its words

RICH = {
    "title": "t",
    "body": "b",
    "image": "https://cdn.example/a.png",
    "sound": "bell.caf",
    "badge": "3",
    "threadId": "orders",
    "data.orderNo": "98213",
}


def test_apns_takes_image_sound_badge_thread_and_data() -> None:
    payload = apns(message(RICH), "app").payload
    assert payload["aps"] == {
        "alert": {"title": "t", "body": "b"},
        "sound": "bell.caf",
        "badge": 3,
        "thread-id": "orders",
        "mutable-content": 1,
    }
    assert (payload["image"], payload["orderNo"]) == ("https://cdn.example/a.png", "98213")
    assert "sound" not in apns(message(RICH | {"sound": "none"}), "app").payload["aps"]


def test_fcm_takes_image_sound_badge_and_data() -> None:
    body = fcm(message(RICH, platform="ANDROID"), NOW)["message"]
    assert body["notification"] == {"title": "t", "body": "b", "image": "https://cdn.example/a.png"}
    assert body["android"]["notification"] == {"sound": "bell.caf", "notification_count": 3}
    assert body["data"]["orderNo"] == "98213"
    assert all(isinstance(value, str) for value in body["data"].values())


@pytest.mark.parametrize(
    ("ttl", "expiration", "fcm_ttl"),
    [
        pytest.param("0", "0", "0s", id="now-or-never"),
        pytest.param("60", str(int(NOW.timestamp()) + 60), "60s", id="shorter-than-the-message-lives"),
        pytest.param("86400", str(int(NOW.timestamp()) + 3600), "3600s", id="never-longer"),
    ],
)
def test_a_template_may_have_a_push_service_keep_it_for_less(ttl: str, expiration: str, fcm_ttl: str) -> None:
    sent = message({"title": "t", "body": "b", "ttl": ttl})
    assert apns(sent, "app").headers["apns-expiration"] == expiration
    assert fcm(sent, NOW)["message"]["android"]["ttl"] == fcm_ttl
    web = fcm(replace(sent, platform="WEB"), NOW)["message"]["webpush"]
    assert web["headers"]["TTL"] == fcm_ttl.removesuffix("s")


@pytest.mark.parametrize(("of_the_request", "expected"), [(None, "order-98213"), ("mine", "mine")])
def test_a_templates_collapse_key_is_used_where_the_request_has_none(of_the_request: str | None, expected: str) -> None:
    sent = message({"title": "t", "body": "b", "collapseKey": "order-98213"}, collapse_key=of_the_request)
    assert apns(sent, "app").headers["apns-collapse-id"] == expected
    assert fcm(sent, NOW)["message"]["android"]["collapse_key"] == expected
    assert fcm(replace(sent, platform="WEB"), NOW)["message"]["webpush"]["headers"]["Topic"] == expected
    assert "collapseKey" not in fcm(sent, NOW)["message"]["data"]


@pytest.mark.parametrize("key", ["sipariş 98213", "k" * 33])
def test_a_topic_has_at_most_32_letters_of_base64url(key: str) -> None:
    topic = fcm(push(collapse_key=key, platform="WEB"), NOW)["message"]["webpush"]["headers"]["Topic"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{32}", topic)


@pytest.mark.parametrize(("extra", "too_large"), [(0, False), (1, True)])
def test_fcm_limit_counts_notification_and_data_P7(extra: int, too_large: bool) -> None:
    frame = fcm(push(body=""), NOW)["message"]
    room = 4096 - len(orjson.dumps(frame["notification"])) - len(orjson.dumps(frame["data"]))
    assert is_too_large(fcm(push(body="a" * (room + extra)), NOW)) is too_large


def test_twilio_takes_the_templates_sender() -> None:
    settings = TwilioSettings.model_validate(
        {"account_sid": f"AC{'0' * 32}", "auth_token": SecretStr("t"), "messaging_service_sid": f"MG{'0' * 32}"}
    )
    fields = parse_qs(form(message({"text": "x", "senderId": "SHOP A"}), settings, NOW))
    assert fields["From"] == ["SHOP A"]
    assert "MessagingServiceSid" not in fields
