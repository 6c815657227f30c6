"""Every mail provider's table, from its vendor's documents."""

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
from shared.providers.email.mailgun.classify import classify as mailgun
from shared.providers.email.sendgrid.classify import classify as sendgrid
from shared.providers.email.sendgrid.classify import refused_personalizations
from shared.providers.email.ses.classify import ERRORS as SES_ERRORS
from shared.providers.email.ses.classify import classify as ses
from shared.providers.email.smtp.classify import Phase, lost
from shared.providers.email.smtp.classify import classify as smtp
from tests.unit.providers.answer import NOW, reply

P = Phase


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
