"""Every push provider's table, from its vendor's documents."""

import pytest

from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.providers.push.apns.classify import REASONS
from shared.providers.push.apns.classify import classify as apns
from shared.providers.push.fcm.classify import classify as fcm
from shared.providers.push.webpush.classify import classify as web_push
from tests.unit.providers.answer import NOW, reply

# ---------------------------------------------------------------- APNs


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadDeviceToken", Permanent),
        (400, "DeviceTokenNotForTopic", Permanent),
        (400, "BadCollapseId", Permanent),
        (400, "PayloadEmpty", Permanent),
        (413, "PayloadTooLarge", Permanent),
        (410, "Unregistered", TargetGone),
        (410, "ExpiredToken", TargetGone),
        (400, "BadTopic", ProviderDown),
        (400, "TopicDisallowed", ProviderDown),
        (403, "InvalidProviderToken", ProviderDown),
        (403, "ExpiredProviderToken", ProviderDown),
        (429, "TooManyRequests", Throttled),
        (429, "TooManyProviderTokenUpdates", Throttled),
        (500, "InternalServerError", Transient),
        (503, "ServiceUnavailable", Transient),
        (503, "Shutdown", Transient),
        (503, "SomethingNew", Transient),
        (400, "SomethingNew", Ambiguous),
    ],
)
def test_apns(status: int, reason: str, kind: type[Outcome]) -> None:
    assert isinstance(apns(reply(status, {"reason": reason}), NOW), kind)


def test_apns_accepted_names_its_id() -> None:
    assert apns(reply(200, apns_id="0a-1"), NOW) == Accepted("0a-1")


def test_wrong_environment_switches_no_device_off_P6() -> None:
    assert apns(reply(400, {"reason": "BadDeviceToken"}), NOW) == Permanent(
        "BadDeviceToken", dead_letter=False, of_account=True
    )


def test_apns_too_many_requests_is_the_devices_alone() -> None:
    outcome = apns(reply(429, {"reason": "TooManyRequests"}, retry_after="9"), NOW)
    assert outcome == Throttled(Scope.TARGET, "TooManyRequests", 9.0)


def test_only_gone_tokens_switch_devices_off() -> None:
    assert {name for name, outcome in REASONS.items() if isinstance(outcome, TargetGone)} == {
        "Unregistered",
        "ExpiredToken",
    }


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"reason": 5}'])
def test_apns_without_a_reason(body: bytes) -> None:
    assert isinstance(apns(Reply(400, {}, body), NOW), Ambiguous)


# ---------------------------------------------------------------- FCM


def fcm_error(status: int, code: str | None, rpc: str = "X", **headers: str) -> Reply:
    details = (
        [] if code is None else [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}]
    )
    return reply(status, {"error": {"code": status, "status": rpc, "details": details}}, **headers)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply(200, {"name": "projects/p/messages/1"}), Accepted("projects/p/messages/1")),
        (fcm_error(404, "UNREGISTERED"), TargetGone("UNREGISTERED")),
        (fcm_error(400, "INVALID_ARGUMENT"), Permanent("INVALID_ARGUMENT")),
        (
            fcm_error(403, "SENDER_ID_MISMATCH"),
            Permanent("SENDER_ID_MISMATCH: the token belongs to another Firebase project"),
        ),
        (fcm_error(429, "QUOTA_EXCEEDED", retry_after="7"), Throttled(Scope.ACCOUNT, "QUOTA_EXCEEDED", 7.0)),
        (fcm_error(429, "QUOTA_EXCEEDED"), Throttled(Scope.ACCOUNT, "QUOTA_EXCEEDED", 60.0)),
        (fcm_error(503, "UNAVAILABLE"), Transient("UNAVAILABLE")),
        (fcm_error(500, "INTERNAL"), Transient("INTERNAL")),
        (fcm_error(401, None, "UNAUTHENTICATED"), ProviderDown("401 UNAUTHENTICATED")),
        (fcm_error(403, None, "PERMISSION_DENIED"), ProviderDown("403 PERMISSION_DENIED")),
        (fcm_error(404, None, "NOT_FOUND"), ProviderDown("404 NOT_FOUND")),
        (fcm_error(400, None, "INVALID_ARGUMENT"), Permanent("400 INVALID_ARGUMENT")),
        (Reply(502, {}, b"<html>"), Transient("502 without a body")),
        (Reply(302, {}, b""), Ambiguous("302 None", unrecognised=True)),
    ],
)
def test_fcm_P8(answer: Reply, expected: Outcome) -> None:
    assert fcm(answer, NOW) == expected


# ---------------------------------------------------------------- Web Push


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (reply(201), Accepted()),
        (reply(202), Accepted()),
        (reply(307), Permanent("307 redirect, which is not followed", dead_letter=False)),
        (reply(400), Permanent("400 request refused")),
        (reply(404), TargetGone("404 no such subscription")),
        (reply(406), Throttled(Scope.DOMAIN, "406 over the push service's rate")),
        (reply(410), TargetGone("410 unsubscribed")),
        (reply(413), Permanent("413 payload too large")),
        (reply(429, retry_after="17"), Throttled(Scope.DOMAIN, "429 too many requests", 17.0)),
        (reply(429), Throttled(Scope.DOMAIN, "429 too many requests")),
        (reply(500), Transient("500 from the push service")),
        (reply(503), Transient("503 from the push service")),
        (reply(418), Ambiguous("418", unrecognised=True)),
    ],
)
def test_web_push_P11(given: Reply, expected: Outcome) -> None:
    assert web_push(given, NOW) == expected


def test_web_push_keys_a_401_is_ours_a_403_one_subscription_s() -> None:
    assert isinstance(web_push(reply(401), NOW), ProviderDown)
    assert web_push(reply(403), NOW) == Permanent(
        "403 the subscription was made with another VAPID key", dead_letter=False
    )
