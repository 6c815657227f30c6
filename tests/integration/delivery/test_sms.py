"""Vonage and Netgsm on real sockets: what they see, what they answer, and what a message costs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from shared.core.cost import Cost, Price
from shared.core.identifier import new_id
from shared.core.outcome import (
    Accepted,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.ports import Prepared, Sender, SendWindow
from shared.core.reference import DeliveryKey
from shared.providers.sms.netgsm.client import NETGSM
from shared.providers.sms.twilio.client import TWILIO
from shared.providers.sms.vonage.client import VONAGE
from shared.wire.channel import MessageClass
from tests.integration.delivery.conftest import Simulator

WINDOW = SendWindow(deadline_sec=5.0)
TURKISH = "Siparişiniz yolda: çıktı"


def message(text: str = TURKISH, number: str = "+905321234567", *, sender: str | None = None) -> Prepared:
    return Prepared(
        key=DeliveryKey(new_id(), "SMS", b"t" * 32),
        attempt=1,
        address=number,
        content={"text": text} | ({} if sender is None else {"senderId": sender}),
        message_class=MessageClass.TX,
        expires_at=datetime.now(UTC) + timedelta(seconds=120),
    )


async def sent(context: AbstractAsyncContextManager[Sender], *messages: Prepared) -> Sequence[Outcome]:
    async with context as sender:
        return await sender.send(messages, WINDOW)


# ---------------------------------------------------------------- Vonage


async def test_sms_as_vonage_sees_it(simulator: Simulator) -> None:
    each = message()
    (outcome,) = await sent(VONAGE.open(simulator.vonage()), each)
    assert isinstance(outcome, Accepted), outcome
    assert outcome.cost == Cost(1, Price(33_300, "EUR"))
    (received,) = await simulator.accepted("vonage")
    assert (received["to"], received["reference"]) == ("+905321234567", each.key.reference)
    assert received["providerMessageId"] == outcome.message_id
    assert received["content"]["body"] == TURKISH
    form = received["content"]["form"]
    assert (form["from"], form["type"]) == ("SHOP", "unicode")
    assert 100_000 <= int(form["ttl"]) <= 120_000


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        pytest.param("]" * 153, "text", 3, id="S1-escapes-at-a-boundary"),
        pytest.param("a" * 160, "text", 1, id="gsm7"),
        pytest.param("a" * 70 + "ş", "unicode", 2, id="S3-no-shift-tables-here"),
        pytest.param("😀" * 35, "unicode", 1, id="surrogates"),
    ],
)
async def test_vonage_charges_the_parts_that_we_count(text: str, kind: str, parts: int, simulator: Simulator) -> None:
    (outcome,) = await sent(VONAGE.open(simulator.vonage()), message(text))
    assert isinstance(outcome, Accepted), outcome
    assert outcome.cost == Cost(parts, Price(parts * 33_300, "EUR"))
    (received,) = await simulator.accepted("vonage")
    assert received["content"]["form"]["type"] == kind


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("+905000000001", Throttled(Scope.ACCOUNT, "1 faster than the account's limit")),
        ("+905000000005", Transient("5 internal error")),
        ("+905000000006", Permanent("6 no such prefix, or not a message")),
        ("+905000000007", Permanent("7 number barred by Vonage", dead_letter=False)),
        ("+905000000009", ProviderDown("9 no credit left: top up")),
        ("+905000000029", Permanent("29 destination not on the trial account's list")),
        ("+905000000033", TargetGone("33 number deactivated")),
    ],
)
async def test_vonage_refusals(number: str, expected: Outcome, simulator: Simulator) -> None:
    assert await sent(VONAGE.open(simulator.vonage()), message(number=number)) == [expected]


async def test_a_wrong_secret_is_the_provider_s_trouble(simulator: Simulator) -> None:
    settings = simulator.vonage(api_secret_file=None, api_secret=SecretStr("wrong"))
    assert await sent(VONAGE.open(settings), message()) == [ProviderDown("4 key or secret refused")]
    netgsm = simulator.netgsm(password_file=None, password=SecretStr("wrong"))
    (outcome,) = await sent(NETGSM.open(netgsm), message())
    assert isinstance(outcome, ProviderDown)
    assert outcome.detail.startswith("30 ")


# ---------------------------------------------------------------- Netgsm


async def test_sms_as_netgsm_sees_it(simulator: Simulator) -> None:
    each = message()
    (outcome,) = await sent(NETGSM.open(simulator.netgsm(prices="+90=0.021 TRY")), each)
    assert isinstance(outcome, Accepted), outcome
    assert outcome.cost == Cost(1, Price(21_000, "TRY"))
    (received,) = await simulator.accepted("netgsm")
    assert (received["to"], received["reference"]) == ("+905321234567", each.key.reference)
    assert received["providerMessageId"] == outcome.message_id
    content = received["content"]
    assert (content["from"], content["body"], content["encoding"]) == ("SHOP", TURKISH, "TR")
    assert content["iysfilter"] == "0"


@pytest.mark.parametrize(("recipients", "expected"), [("individual", "11"), ("merchant", "12")])
async def test_marketing_is_checked_at_iys_by_netgsm_too(recipients: str, expected: str, simulator: Simulator) -> None:
    marketing = replace(message(), marketing=True)
    await sent(NETGSM.open(simulator.netgsm(iys_recipients=recipients)), marketing)
    (received,) = await simulator.accepted("netgsm")
    assert received["content"]["iysfilter"] == expected


@pytest.mark.parametrize(
    ("text", "encoding", "parts"),
    [
        pytest.param("a" * 160, None, 1, id="gsm7"),
        pytest.param("a" * 161, None, 2, id="gsm7-two"),
        pytest.param("a" * 153 + "ş", "TR", 1, id="S3-single-shift"),
        pytest.param("a" * 154 + "ş", "TR", 2, id="S3-one-septet-more"),
        pytest.param("ö" * 160, None, 1, id="ö-is-in-the-default-alphabet"),
        pytest.param("ş" * 74 + "a", "TR", 1, id="two-septets-each"),
        pytest.param("]" * 153, None, 3, id="S1-escapes-at-a-boundary"),
    ],
)
async def test_netgsm_s_parts_are_those_that_we_count(
    text: str, encoding: str | None, parts: int, simulator: Simulator
) -> None:
    (outcome,) = await sent(NETGSM.open(simulator.netgsm()), message(text))
    assert isinstance(outcome, Accepted), outcome
    assert outcome.cost == Cost(parts)
    (received,) = await simulator.accepted("netgsm")
    assert (received["content"]["encoding"], received["content"]["numSegments"]) == (encoding, parts)


@pytest.mark.parametrize("text", ["Merhaba 😀", "Привет", "ä and ș"])
async def test_what_netgsm_cannot_carry_is_refused_rather_than_replaced_S3(text: str, simulator: Simulator) -> None:
    (outcome,) = await sent(NETGSM.open(simulator.netgsm()), message(text))
    assert isinstance(outcome, Permanent), outcome
    assert await simulator.messages("netgsm") == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("+905000000020", Permanent("20 text refused, or too long")),
        ("+905000000050", Permanent("50 the account may not send messages under İYS control")),
        ("+905000000051", Permanent("51 the account has no İYS brand")),
        ("+905000000080", Throttled(Scope.ACCOUNT, "80 sending limit exceeded")),
        ("+905000000085", Throttled(Scope.TARGET, "85 over 20 tasks a minute for this number", 60.0)),
        ("+905000000100", Transient("100 system error")),
        (
            "+491711234567",
            Permanent("Netgsm carries numbers of Türkiye (+90) alone: give the lane a provider for others too"),
        ),
    ],
)
async def test_netgsm_refusals(number: str, expected: Outcome, simulator: Simulator) -> None:
    assert await sent(NETGSM.open(simulator.netgsm()), message(number=number)) == [expected]


async def test_a_header_that_the_account_lacks_is_not_the_whole_account_s_trouble(simulator: Simulator) -> None:
    (outcome,) = await sent(NETGSM.open(simulator.netgsm()), message(sender="OTHER"))
    assert outcome == ProviderDown("40 sender header not defined in the account", whole_account=False)


# ---------------------------------------------------------------- sender ids per country


@pytest.mark.parametrize(
    ("number", "sender", "expected"),
    [
        ("+905321234567", None, "MAGAZA"),
        ("+905321234567", "SALE", "SALE"),
        ("+12025550199", None, "12025550123"),
        ("+12025550199", "SALE", "12025550123"),
        ("+491711234567", None, "SHOP"),
    ],
    ids=["TR", "TR-template", "US", "US-template-has-a-name", "DE-account"],
)
async def test_who_a_message_is_from_by_country(
    number: str, sender: str | None, expected: str, simulator: Simulator
) -> None:
    settings = simulator.vonage(senders="+90=MAGAZA,+1=+12025550123")
    (outcome,) = await sent(VONAGE.open(settings), message("x", number, sender=sender))
    assert isinstance(outcome, Accepted), outcome
    (received,) = await simulator.accepted("vonage")
    assert received["content"]["from"] == expected


async def test_twilio_s_sender_by_country_comes_before_its_messaging_service(simulator: Simulator) -> None:
    service = simulator.twilio(from_number=None, messaging_service_sid="MG" + "0" * 32, senders="+90=MAGAZA")
    await sent(TWILIO.open(service), message("x"), message("x", "+491711234567"))
    first, second = await simulator.accepted("twilio")
    assert {first["content"]["from"], second["content"]["from"]} == {"MAGAZA", None}
