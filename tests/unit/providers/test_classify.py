"""Every provider's table, from its vendor's documents."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from shared.core.cost import Cost, Price
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
from shared.providers.email.mailgun.classify import classify as mailgun
from shared.providers.email.sendgrid.classify import classify as sendgrid
from shared.providers.email.sendgrid.classify import refused_personalizations
from shared.providers.email.ses.classify import ERRORS as SES_ERRORS
from shared.providers.email.ses.classify import classify as ses
from shared.providers.email.smtp.classify import Phase, lost
from shared.providers.email.smtp.classify import classify as smtp
from shared.providers.push.apns.classify import REASONS
from shared.providers.push.apns.classify import classify as apns
from shared.providers.push.fcm.classify import classify as fcm
from shared.providers.push.webpush.classify import classify as web_push
from shared.providers.retry_after import retry_after_sec
from shared.providers.sms.netgsm.classify import classify as netgsm
from shared.providers.sms.twilio.classify import classify as twilio
from shared.providers.sms.vonage.classify import classify as vonage

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
P = Phase


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, b"" if body is None else orjson.dumps(body))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("17", 17.0),
        (" 0 ", 0.0),
        ("Thu, 15 Jan 2026 09:01:30 GMT", 90.0),
        ("Thu, 15 Jan 2026 08:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date_S7(value: str | None, expected: float | None) -> None:
    assert retry_after_sec(value, NOW) == expected


# ---------------------------------------------------------------- SMTP


@pytest.mark.parametrize(
    ("phase", "code", "text", "expected"),
    [
        (P.END, 250, "2.0.0 Ok: queued as 4Xk2", Accepted("4Xk2")),
        (P.END, 250, "OK", Accepted(None)),
        (P.GREETING, 554, "no service", ProviderDown("greeting 554")),
        (P.GREETING, 421, "4.3.2 busy", Transient("greeting 421 4.3.2", not_processed=True)),
        (P.TLS, 454, "4.7.0 not now", Transient("tls 454 4.7.0", not_processed=True)),
        (P.TLS, 501, "5.5.4 no", ProviderDown("tls 501 5.5.4")),
        (P.AUTH, 535, "5.7.8 bad credentials", ProviderDown("auth 535 5.7.8")),
        (P.AUTH, 454, "4.7.0 later", Transient("auth 454 4.7.0", not_processed=True)),
        (P.MAIL, 530, "5.7.0 STARTTLS first", ProviderDown("mail 530 5.7.0")),
        (P.MAIL, 553, "5.7.1 sender not owned", ProviderDown("mail 553 5.7.1", whole_account=False)),
        (P.MAIL, 552, "5.3.4 too big", Permanent("mail 552 5.3.4")),
        (P.MAIL, 421, "4.3.2 closing", Transient("mail 421 4.3.2", not_processed=True)),
        (P.RCPT, 550, "5.1.1 no such user", TargetGone("rcpt 550 5.1.1")),
        (P.RCPT, 550, "5.1.10 null mx", TargetGone("rcpt 550 5.1.10")),
        (P.RCPT, 550, "5.2.1 disabled", TargetGone("rcpt 550 5.2.1")),
        (P.RCPT, 550, "mailbox unavailable", Permanent("rcpt 550", dead_letter=False)),
        (P.RCPT, 550, "5.7.1 blocked by policy", Permanent("rcpt 550 5.7.1", dead_letter=False)),
        (P.RCPT, 552, "5.2.2 quota", Permanent("rcpt 552 5.2.2", dead_letter=False)),
        (P.RCPT, 451, "4.7.1 greylisted", Transient("rcpt 451 4.7.1", not_processed=True, of_target=True)),
        (P.RCPT, 450, "4.2.1 too much mail", Throttled(Scope.DOMAIN, "rcpt 450 4.2.1")),
        (P.RCPT, 503, "5.5.1 out of order", Transient("rcpt 503 5.5.1", not_processed=True)),
        (P.DATA, 452, "4.3.1 full", Transient("data 452 4.3.1", not_processed=True)),
        (P.DATA, 554, "5.5.1 no valid recipients", Permanent("data 554 5.5.1")),
        (P.END, 451, "4.3.0 error", Transient("end 451 4.3.0", not_processed=True)),
        (P.END, 421, "4.7.28 rate", Throttled(Scope.DOMAIN, "end 421 4.7.28")),
        (P.END, 554, "5.6.0 refused", Permanent("end 554 5.6.0")),
        (P.END, 354, "go on", Ambiguous("end 354", unrecognised=True)),
        (P.RCPT, 299, "what", Ambiguous("rcpt 299", unrecognised=True)),
    ],
)
def test_smtp(phase: Phase, code: int, text: str, expected: Outcome) -> None:
    assert smtp(phase, code, text) == expected


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.END])
def test_smtp_lost_before_the_content_is_not_processed(phase: Phase) -> None:
    outcome = lost(phase, "timed out")
    assert isinstance(outcome, Transient)
    assert outcome.not_processed


def test_smtp_lost_after_the_final_dot_is_ambiguous() -> None:
    assert isinstance(lost(Phase.END, "timed out"), Ambiguous)


def test_smtp_details_hold_no_text_of_the_server() -> None:
    assert "ayse@example.com" not in repr(smtp(Phase.RCPT, 550, "5.1.1 <ayse@example.com>: no such user"))


# ---------------------------------------------------------------- SES


def ses_error(status: int, error: str, message: str = "", **headers: str) -> Reply:
    return reply(status, {"message": message}, x_amzn_errortype=error, **headers)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply(200, {"MessageId": "0100-1"}), Accepted("0100-1")),
        (ses_error(400, "MessageRejected", "Virus found"), Permanent("MessageRejected")),
        (ses_error(400, "BadRequestException"), Permanent("BadRequestException")),
        (
            ses_error(400, "MessageRejected", "Email address is not verified. Region EU"),
            ProviderDown(
                "MessageRejected: an address is not verified, verify the domain or leave the sandbox",
                whole_account=False,
            ),
        ),
        (ses_error(429, "TooManyRequestsException"), Throttled(Scope.ACCOUNT, "TooManyRequestsException")),
        (
            ses_error(429, "TooManyRequestsException", retry_after="9"),
            Throttled(Scope.ACCOUNT, "TooManyRequestsException", 9.0),
        ),
        (
            ses_error(400, "ThrottlingException", "Daily message quota exceeded"),
            Throttled(Scope.ACCOUNT, "ThrottlingException", 600.0),
        ),
        (ses_error(400, "LimitExceededException"), Throttled(Scope.ACCOUNT, "LimitExceededException")),
        (
            ses_error(400, "SendingPausedException"),
            ProviderDown("SendingPausedException: sending is paused for the account or the set"),
        ),
        (
            ses_error(403, "SignatureDoesNotMatch"),
            ProviderDown("SignatureDoesNotMatch: check ULAK_SES_SECRET_ACCESS_KEY and the clock"),
        ),
        (
            reply(403, {"__type": "com.amazon.coral.service#ExpiredTokenException"}),
            ProviderDown("ExpiredTokenException"),
        ),
        (ses_error(403, "SomethingNew"), ProviderDown("403 SomethingNew")),
        (ses_error(408, "RequestTimeoutException"), Transient("RequestTimeoutException", not_processed=True)),
        (ses_error(500, "InternalFailure"), Transient("InternalFailure")),
        (ses_error(503, "ServiceUnavailable"), Transient("ServiceUnavailable")),
        (Reply(502, {}, b"<html>"), Transient("502 from SES")),
        (Reply(413, {}, b""), Permanent("413 request too large")),
        (ses_error(400, "SomethingNew"), Ambiguous("400 SomethingNew", unrecognised=True)),
        (ses_error(400, "Some: ayse@example.com"), Ambiguous("400 Some", unrecognised=True)),
        (Reply(302, {}, b"[]"), Ambiguous("302", unrecognised=True)),
    ],
)
def test_ses(answer: Reply, expected: Outcome) -> None:
    assert ses(answer, NOW) == expected


def test_ses_details_hold_no_text_of_the_server() -> None:
    for error in (*SES_ERRORS, "SomethingNew"):
        assert "ayse@example.com" not in repr(ses(ses_error(400, error, "not ayse@example.com"), NOW))


# ---------------------------------------------------------------- SendGrid


def sendgrid_error(status: int, *fields: str | None, **headers: str) -> Reply:
    errors = [{"message": "Does not contain ayse@example.com", "field": field} for field in fields]
    return reply(status, {"errors": errors}, **headers)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Reply(202, {"x-message-id": "14c5d75ce93"}, b""), Accepted("14c5d75ce93")),
        (Reply(200, {}, b""), ProviderDown("200 sandbox mode: nothing is sent")),
        (
            sendgrid_error(400, "personalizations.7.to.0.email"),
            Permanent("400 personalizations.to.email", dead_letter=False),
        ),
        (sendgrid_error(400, "content", None), Permanent("400 , content")),
        (sendgrid_error(400), Permanent("400")),
        (
            sendgrid_error(401, None),
            ProviderDown("401 key refused: check ULAK_SENDGRID_API_KEY and the account's credits"),
        ),
        (sendgrid_error(403, None), ProviderDown("403 forbidden: the key needs mail.send")),
        (
            sendgrid_error(403, "from"),
            ProviderDown("403 from: the sender needs a verified identity", whole_account=False),
        ),
        (sendgrid_error(413, None), Permanent("413 message too large")),
        (
            sendgrid_error(429, None, x_ratelimit_reset=str(int(NOW.timestamp()) + 17)),
            Throttled(Scope.ACCOUNT, "429 too many requests", 17.0),
        ),
        (sendgrid_error(429, None, retry_after="9"), Throttled(Scope.ACCOUNT, "429 too many requests", 9.0)),
        (sendgrid_error(429, None), Throttled(Scope.ACCOUNT, "429 too many requests")),
        (sendgrid_error(500, None), Transient("500 from SendGrid")),
        (Reply(503, {}, b"<html>"), Transient("503 from SendGrid")),
        (Reply(302, {}, b""), Ambiguous("302", unrecognised=True)),
        (Reply(418, {}, b'{"errors": 5}'), Ambiguous("418", unrecognised=True)),
    ],
)
def test_sendgrid(answer: Reply, expected: Outcome) -> None:
    assert sendgrid(answer, NOW) == expected


@pytest.mark.parametrize(
    ("answer", "indexes"),
    [
        (sendgrid_error(400, "personalizations.7.to.0.email", "personalizations.0.to"), {0, 7}),
        (sendgrid_error(400, "personalizations.3"), {3}),
        (sendgrid_error(400, "personalizations.7.to.0.email", "content"), set()),
        (sendgrid_error(400, "personalizations"), set()),
        (sendgrid_error(400, None), set()),
        (sendgrid_error(413, "personalizations.7.to"), set()),
        (Reply(400, {}, b'{"errors": [5]}'), set()),
        (Reply(400, {}, b"<html>"), set()),
    ],
)
def test_sendgrid_names_whose_mail_is_at_fault(answer: Reply, indexes: set[int]) -> None:
    assert refused_personalizations(answer) == indexes


# ---------------------------------------------------------------- Mailgun


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply(200, {"id": "<eml_1@shop.example>", "message": "Queued. Thank you."}), Accepted("eml_1@shop.example")),
        (
            reply(400, {"message": "'to' parameter is not a valid address. please check documentation"}),
            Permanent("400 not a valid address", dead_letter=False),
        ),
        (reply(400, {"message": "to parameter is missing"}), Permanent("400 request refused")),
        (Reply(401, {}, b"Forbidden"), ProviderDown("401 key refused: check ULAK_MAILGUN_API_KEY")),
        (reply(402), ProviderDown("402 the account's plan does not allow it")),
        (reply(403), ProviderDown("403 access denied: check the key's rights and the domain's state")),
        (
            reply(404, {"message": "Domain not found: shop.example"}),
            ProviderDown("404 no such domain: check ULAK_MAILGUN_DOMAIN and ULAK_MAILGUN_REGION"),
        ),
        (reply(413), Permanent("413 message too large")),
        (reply(429, retry_after="9"), Throttled(Scope.ACCOUNT, "429 too many requests", 9.0)),
        (reply(500), Transient("500 from Mailgun")),
        (Reply(502, {}, b"<html>"), Transient("502 from Mailgun")),
        (Reply(302, {}, b"[]"), Ambiguous("302", unrecognised=True)),
    ],
)
def test_mailgun(answer: Reply, expected: Outcome) -> None:
    assert mailgun(answer, NOW) == expected


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


# ---------------------------------------------------------------- Twilio


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (reply(201, {"sid": "SM1"}), Accepted("SM1")),
        (reply(400, {"code": 21610}), TargetGone("21610 recipient has opted out")),
        (reply(400, {"code": 21614}), TargetGone("21614 not a mobile number")),
        (reply(400, {"code": 30006}), Permanent("30006 landline or unreachable carrier", dead_letter=False)),
        (reply(400, {"code": 30003}), Transient("30003 handset unreachable", not_processed=True, of_target=True)),
        (reply(400, {"code": 21617}), Permanent("21617 message body over 1,600 characters")),
        (reply(400, {"code": 21408}), Permanent("21408 region not enabled for this account")),
        (reply(429, {"code": 20429}, retry_after="3"), Throttled(Scope.ACCOUNT, "20429 too many requests", 3.0)),
        (
            reply(429, retry_after="Thu, 15 Jan 2026 09:01:30 GMT"),
            Throttled(Scope.ACCOUNT, "429 too many requests", 90.0),
        ),
        (reply(401, {"code": 20003}), ProviderDown("20003 authentication refused")),
        (reply(403), ProviderDown("403 credentials refused")),
        (reply(404), ProviderDown("20404 no such resource: check account and base URL")),
        (reply(500), Transient("500 from Twilio")),
        (reply(400, {"code": 99999}), Ambiguous("400 code 99999", unrecognised=True)),
        (Reply(400, {}, b"not json"), Ambiguous("400 code None", unrecognised=True)),
    ],
)
def test_twilio_S7(answer: Reply, expected: Outcome) -> None:
    assert twilio(answer, NOW) == expected


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


# ---------------------------------------------------------------- Vonage


def vonage_reply(*statuses: str, price: str | None = "0.03330000") -> Reply:
    parts = [
        {"status": status, "message-id": f"0A{place}"} | ({} if price is None else {"message-price": price})
        for place, status in enumerate(statuses)
    ]
    return reply(200, {"message-count": str(len(parts)), "messages": parts})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (vonage_reply("0"), Accepted("0A0", Cost(1, Price(33_300, "EUR")))),
        (vonage_reply("0", "0", "0"), Accepted("0A0", Cost(3, Price(99_900, "EUR")))),
        (vonage_reply("0", price=None), Accepted("0A0", Cost(1))),
        (vonage_reply("0", price="much"), Accepted("0A0", Cost(1))),
        (vonage_reply("0", "1"), Ambiguous("some parts were taken, others not: 0, 1")),
        (vonage_reply("4"), ProviderDown("4 key or secret refused")),
        (vonage_reply("10"), Throttled(Scope.ACCOUNT, "10 too many connections")),
        (vonage_reply("15"), ProviderDown("15 sender not allowed", whole_account=False)),
        (vonage_reply("33"), TargetGone("33 number deactivated")),
        (vonage_reply("99"), Ambiguous("status 99", unrecognised=True)),
        (reply(200, {}), Ambiguous("200 without a message", unrecognised=True)),
        (reply(200), Ambiguous("200 without a message", unrecognised=True)),
        (reply(401), ProviderDown("401 credentials refused or no credit")),
        (reply(429, retry_after="17"), Throttled(Scope.ACCOUNT, "429 too many requests", 17.0)),
        (reply(502), Transient("502 from Vonage")),
    ],
)
def test_vonage(given: Reply, expected: Outcome) -> None:
    assert vonage(given, NOW, "EUR") == expected


# ---------------------------------------------------------------- Netgsm


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (reply(200, {"code": "00", "jobid": "17377215342605050417"}), Accepted("17377215342605050417")),
        (reply(200, {"code": "02", "jobid": 17}), Accepted("17")),
        (reply(406, {"code": "30"}), netgsm(reply(200, {"code": "30"}), NOW)),
        (reply(406, {"code": "70"}), Permanent("70 a parameter is wrong or missing")),
        (reply(406, {"code": "80"}), Throttled(Scope.ACCOUNT, "80 sending limit exceeded")),
        (reply(406, {"code": "00"}), Ambiguous("406 code 00", unrecognised=True)),
        (reply(406, {"code": "61"}), Ambiguous("406 code 61", unrecognised=True)),
        (reply(200), Ambiguous("200 code ", unrecognised=True)),
        (reply(429, {"code": "80"}, retry_after="17"), Throttled(Scope.ACCOUNT, "429 too many requests", 17.0)),
        (reply(401), ProviderDown("401 credentials refused")),
        (reply(500), Transient("500 from Netgsm")),
    ],
)
def test_netgsm(given: Reply, expected: Outcome) -> None:
    assert netgsm(given, NOW) == expected
