"""Every SMS provider's table, from its vendor's documents."""

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
from shared.providers.sms.netgsm.classify import classify as netgsm
from shared.providers.sms.twilio.classify import classify as twilio
from shared.providers.sms.vonage.classify import classify as vonage
from tests.unit.providers.answer import NOW, reply

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
