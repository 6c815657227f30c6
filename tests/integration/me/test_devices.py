"""Devices over the API; fixtures: me (the running service), pool (its database), key_ring."""

import asyncio
import base64
from typing import Any

import asyncpg
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from shared.core.address import target_key
from shared.core.sealing import KeyRing, Purpose, open_sealed
from tests.integration.me.conftest import DEVICES, Me, apns_token

FCM = "dQw4tablet7:APA91bF-sample-registration-token-of-the-tablet"


def _base64url(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


POINT = generate_private_key(SECP256R1()).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
P256DH, AUTH = _base64url(POINT), _base64url(bytes(range(16)))


def subscription(endpoint: str = "https://fcm.googleapis.com/fcm/send/abc", **keys: str) -> dict[str, Any]:
    return {
        "platform": "WEB",
        "subscription": {"endpoint": endpoint, "expirationTime": None, "keys": {"p256dh": P256DH, "auth": AUTH} | keys},
    }


async def test_the_seeds_registration_creates_and_seeing_it_again_only_touches(me: Me, key_ring: KeyRing) -> None:
    body = {"token": apns_token(), "platform": "IOS"}
    first = await me.post(DEVICES, body)
    row = await me.pool.fetchrow("SELECT * FROM ulak.devices")
    again = await me.post(DEVICES, body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["deviceId"].startswith("dev_")
    assert first.json() | {"lastSeen": 0} == again.json() | {"lastSeen": 0}
    assert again.json()["lastSeen"] > first.json()["lastSeen"]
    assert first.json()["token"] == f"…{apns_token()[-4:]}"
    assert row is not None
    assert row["token_key"] == target_key(key_ring, "PUSH", apns_token())
    assert open_sealed(key_ring, Purpose.ADDRESS, row["token_key"], row["token_sealed"]) == apns_token().encode()


async def test_a_token_goes_to_whoever_signed_in_last_and_takes_nothing_along(me: Me) -> None:
    body = {"token": FCM, "platform": "ANDROID", "appId": "com.example.shop"}
    await me.post(DEVICES, body | {"deviceId": "tablet", "permission": "denied"}, user="7")
    moved = await me.post(DEVICES, body, user="8")
    assert (await me.get(DEVICES, "7")).json() == {"devices": []}
    (device,) = (await me.get(DEVICES, "8")).json()["devices"]
    assert device == moved.json()
    assert (device["active"], device["permission"]) == (True, "granted")
    assert device["deviceId"].startswith("dev_")  # the other user's name for it stays theirs


async def test_a_new_token_of_the_same_installation_replaces_the_old_one(me: Me) -> None:
    for number in (1, 2):
        answer = await me.post(DEVICES, {"token": apns_token(number), "platform": "IOS", "deviceId": "phone"})
        assert answer.status_code == 201
    (device,) = (await me.get(DEVICES)).json()["devices"]
    assert (device["deviceId"], device["token"]) == ("phone", f"…{apns_token(2)[-4:]}")


async def test_installations_of_two_apps_may_have_the_same_name(me: Me) -> None:
    for number, app in ((1, "shop"), (2, "seller")):
        await me.post(DEVICES, {"token": apns_token(number), "platform": "IOS", "deviceId": "phone", "appId": app})
    assert len((await me.get(DEVICES)).json()["devices"]) == 2


async def test_a_device_that_may_show_nothing_is_remembered_and_not_sent_to(me: Me) -> None:
    body = {"token": FCM, "platform": "ANDROID"}
    assert (await me.post(DEVICES, body | {"permission": "denied"})).json()["active"] is False
    assert (await me.post(DEVICES, body | {"permission": "granted"})).json()["active"] is True


async def test_the_longest_unseen_devices_go_above_fifty(me: Me) -> None:
    for number in range(52):
        await me.post(DEVICES, {"token": apns_token(number), "platform": "IOS"})
    devices = (await me.get(DEVICES)).json()["devices"]
    assert [device["token"] for device in devices] == [f"…{apns_token(number)[-4:]}" for number in range(51, 1, -1)]


async def test_one_installation_that_registers_many_times_at_once_has_one_device(me: Me) -> None:
    answers = await asyncio.gather(
        *(
            me.post(DEVICES, {"token": apns_token(number), "platform": "IOS", "deviceId": "phone"}, user=user)
            for number in range(10)
            for user in ("7", "8")
        )
    )
    assert {answer.status_code for answer in answers} <= {200, 201}
    rows = await me.pool.fetch("SELECT user_id, device_id FROM ulak.devices")
    assert len(rows) <= 2
    assert len({row["user_id"] for row in rows}) == len(rows)


async def test_two_phones_that_change_hands_at_once_both_have_their_new_owner(me: Me, pool: asyncpg.Pool) -> None:
    phones = {"7": apns_token(1), "8": apns_token(2)}
    for _ in range(5):
        await asyncio.gather(
            *(me.post(DEVICES, {"token": t, "platform": "IOS", "deviceId": "x"}, user=u) for u, t in phones.items())
        )
        phones = {"7": phones["8"], "8": phones["7"]}
    assert await pool.fetchval("SELECT count(DISTINCT user_id) FROM ulak.devices") == 2


async def test_removing_takes_the_apps_name_or_ours_and_only_ones_own(me: Me) -> None:
    named = (await me.post(DEVICES, {"token": apns_token(1), "platform": "IOS", "deviceId": "phone"})).json()
    ours = (await me.post(DEVICES, {"token": apns_token(2), "platform": "IOS"})).json()
    for device in (named, ours):
        path = f"{DEVICES}/{device['deviceId']}"
        crossing = await me.delete(path, user="8")
        assert (crossing.status_code, crossing.json()["code"]) == (404, "device_not_found")
        await me.post(DEVICES, {"token": FCM, "platform": "ANDROID"}, user="8")
        assert (await me.delete(path, user="8")).status_code == 404
        assert (await me.delete(path)).status_code == 204
        assert (await me.delete(path)).status_code == 404
    assert (await me.get(DEVICES)).json() == {"devices": []}
    assert len((await me.get(DEVICES, "8")).json()["devices"]) == 1


async def test_a_web_push_subscription_is_one_device_by_its_endpoint(me: Me, key_ring: KeyRing) -> None:
    first = await me.post(DEVICES, subscription())
    again = await me.post(DEVICES, subscription(auth=_base64url(bytes(16))))
    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["platform"], first.json()["token"]) == ("WEB", "…")
    row = await me.pool.fetchrow("SELECT * FROM ulak.devices")
    assert row is not None
    assert row["platform"] == "WEBPUSH"
    stored = open_sealed(key_ring, Purpose.ADDRESS, row["token_key"], row["token_sealed"]).decode()
    assert _base64url(bytes(16)) in stored


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("push.example.org", 201),
        pytest.param("push.example.com", 422, id="one-address-of-several-is-not-public"),
        pytest.param("internal.example.org", 422, id="resolves-privately"),
        pytest.param("mapped.example.org", 422, id="loopback-in-ipv6-clothes"),
        pytest.param("nowhere.example.org", 422, id="does-not-exist"),
        pytest.param("127.0.0.1", 422, id="loopback"),
        pytest.param("[::1]", 422, id="loopback6"),
        pytest.param("localhost", 422, id="no-dot"),
        pytest.param("169.254.169.254", 422, id="metadata-service"),
        pytest.param("slow.example.org", 503, id="name-service-away"),
    ],
)
async def test_an_endpoint_must_be_one_of_the_internet_P12(me: Me, host: str, status: int) -> None:
    answer = await me.post(DEVICES, subscription(f"https://{host}/send/abc"))
    assert answer.status_code == status, answer.text
    if status == 422:
        assert answer.json()["code"] == "invalid_subscription"
        assert answer.json()["errors"][0]["path"] == "subscription.endpoint"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        pytest.param({"platform": "IOS"}, "token", id="neither"),
        pytest.param(subscription() | {"token": FCM}, "token", id="both"),
        pytest.param(subscription() | {"platform": "IOS"}, "platform", id="subscription-of-a-phone"),
        pytest.param({"platform": "IOS", "token": FCM}, "token", id="ios-shape"),
        pytest.param({"platform": "ANDROID", "token": "kısa"}, "token", id="android-shape"),
        pytest.param({"platform": "FRIDGE", "token": FCM}, "platform", id="platform"),
        pytest.param({"platform": "ANDROID", "token": FCM, "userId": "8"}, "userId", id="somebody-else"),
        pytest.param(subscription(p256dh=AUTH), "subscription.keys.p256dh", id="key-length"),
        pytest.param(subscription(p256dh=_base64url(b"\x04" + bytes(64))), "subscription.keys.p256dh", id="off-curve"),
        pytest.param(subscription(auth="!!"), "subscription.keys.auth", id="auth"),
        pytest.param(subscription("http://push.example.org/x"), "subscription.endpoint", id="http"),
        pytest.param(subscription("https://push.example.org:8443/x"), "subscription.endpoint", id="port"),
        pytest.param(subscription("https://a@push.example.org/x"), "subscription.endpoint", id="user"),
    ],
)
async def test_what_is_no_device_is_refused_and_never_quoted(me: Me, body: dict[str, Any], path: str) -> None:
    answer = await me.post(DEVICES, body)
    assert answer.status_code == 422
    assert path in [error["path"] for error in answer.json()["errors"]]
    assert FCM not in answer.text
    assert await me.pool.fetchval("SELECT count(*) FROM ulak.devices") == 0
