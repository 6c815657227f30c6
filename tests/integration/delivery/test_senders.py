"""Real senders on real sockets: one contract for all, then what is particular about each."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.core.identifier import new_id
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    NotSent,
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
from shared.providers.email.mailgun.client import MAILGUN
from shared.providers.email.sendgrid.client import SENDGRID
from shared.providers.email.ses.client import SES
from shared.providers.email.smtp.client import SMTP
from shared.providers.push.apns.client import APNS
from shared.providers.push.fcm.client import FCM
from shared.providers.push.webpush.client import WEB_PUSH
from shared.providers.simulated import SimulatedSender
from shared.providers.sms.netgsm.client import NETGSM
from shared.providers.sms.twilio.client import TWILIO
from shared.providers.sms.vonage.client import VONAGE
from shared.wire.channel import MessageClass
from tests.integration.delivery.conftest import Simulator
from tests.integration.plain_http import plain_client

WINDOW = SendWindow(deadline_sec=5.0)
SHORT = SendWindow(deadline_sec=0.5)


def prepared(channel: str, **changes: Any) -> Prepared:
    address, content, platform = {
        "EMAIL": ("ayse@example.com", {"subject": "Siparişiniz kargoda", "text": "Merhaba Ayşe\n"}, None),
        "IOS": ("a1" * 32, {"title": "Kargonuz yolda", "body": "İyi günler"}, "IOS"),
        "ANDROID": ("token-1", {"title": "Kargonuz yolda", "body": "İyi günler"}, "ANDROID"),
        "WEBPUSH": ("", {"title": "Kargonuz yolda", "body": "İyi günler"}, "WEBPUSH"),
        "SMS": ("+905321234567", {"text": "Siparişiniz yolda"}, None),
    }[channel]
    message = Prepared(
        key=DeliveryKey(new_id(), "PUSH" if platform else channel, b"t" * 32),
        attempt=1,
        address=address,
        content=content,
        message_class=MessageClass.TX,
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        platform=platform,
    )
    return replace(message, **changes)


@dataclass(frozen=True)
class Kind:
    """One sender under the contract: how to open it, what to send, the simulator's name and a late answer's fault."""

    provider: str
    channel: str
    open: Callable[[Simulator], Any]
    delay: Mapping[str, Any]
    refused: Callable[[Simulator], Any]
    drop: Mapping[str, Any]
    address: Callable[[Simulator], str] | None = None
    nowhere: Callable[[Simulator], str] | None = None
    """Where the address itself says whom to call: one that `refused` cannot reach."""

    def message(self, simulator: Simulator, *, nowhere: bool = False) -> Prepared:
        address = self.nowhere if nowhere else self.address
        return prepared(self.channel, **({} if address is None else {"address": address(simulator)}))


SMTP_KIND = Kind(
    "smtp",
    "EMAIL",
    lambda sim: SMTP.open(sim.smtp()),
    {"smtp": {"phase": "dataEnd"}},
    lambda sim: SMTP.open(sim.smtp(port=1)),
    {"smtp": {"phase": "dataEnd"}},
)
HTTP_NOWHERE = "http://127.0.0.1:1"
HTTPS_NOWHERE = "https://127.0.0.1:1"
KINDS = [
    SMTP_KIND,
    Kind(
        "ses",
        "EMAIL",
        lambda sim: SES.open(sim.ses()),
        {},
        lambda sim: SES.open(sim.ses(base_url=HTTP_NOWHERE)),
        {},
    ),
    Kind(
        "sendgrid",
        "EMAIL",
        lambda sim: SENDGRID.open(sim.sendgrid()),
        {},
        lambda sim: SENDGRID.open(sim.sendgrid(base_url=HTTP_NOWHERE)),
        {},
    ),
    Kind(
        "mailgun",
        "EMAIL",
        lambda sim: MAILGUN.open(sim.mailgun()),
        {},
        lambda sim: MAILGUN.open(sim.mailgun(base_url=HTTP_NOWHERE)),
        {},
    ),
    Kind(
        "apns",
        "IOS",
        lambda sim: APNS.open(sim.apns()),
        {},
        lambda sim: APNS.open(sim.apns(base_url=HTTPS_NOWHERE)),
        {},
    ),
    Kind(
        "apns",
        "IOS",
        lambda sim: APNS.open(sim.apns(engine="aioapns")),
        {},
        lambda sim: APNS.open(sim.apns(engine="aioapns", base_url=HTTPS_NOWHERE)),
        {},
    ),
    Kind(
        "fcm",
        "ANDROID",
        lambda sim: FCM.open(sim.fcm()),
        {},
        lambda sim: FCM.open(sim.fcm(base_url=HTTPS_NOWHERE)),
        {},
    ),
    Kind(
        "webpush",
        "WEBPUSH",
        lambda sim: WEB_PUSH.open(sim.webpush()),
        {},
        lambda sim: WEB_PUSH.open(sim.webpush(trusted_push_hosts="127.0.0.1:1")),
        {},
        lambda sim: sim.subscription("browser-1"),
        lambda sim: sim.subscription("/browser-1", service=HTTPS_NOWHERE),
    ),
    Kind(
        "twilio",
        "SMS",
        lambda sim: TWILIO.open(sim.twilio()),
        {},
        lambda sim: TWILIO.open(sim.twilio(base_url=HTTP_NOWHERE)),
        {},
    ),
    Kind(
        "vonage",
        "SMS",
        lambda sim: VONAGE.open(sim.vonage()),
        {},
        lambda sim: VONAGE.open(sim.vonage(base_url=HTTP_NOWHERE)),
        {},
    ),
    Kind(
        "netgsm",
        "SMS",
        lambda sim: NETGSM.open(sim.netgsm()),
        {},
        lambda sim: NETGSM.open(sim.netgsm(base_url=HTTP_NOWHERE)),
        {},
    ),
]
IDS = ["smtp", "ses", "sendgrid", "mailgun", "apns", "apns-aioapns", "fcm", "webpush", "twilio", "vonage", "netgsm"]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=IDS)


@asynccontextmanager
async def opened(context: Any) -> AsyncIterator[Sender]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(context)


@each_kind
async def test_each_is_accepted_once_in_order(kind: Kind, simulator: Simulator) -> None:
    batch = [kind.message(simulator) for _ in range(5)]
    async with opened(kind.open(simulator)) as sender:
        assert sender.provider == kind.provider
        outcomes = await sender.send(batch, WINDOW)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes), outcomes
    calls = [message["content"] for message in await simulator.accepted(kind.provider)]
    assert sum(len(content.get("rcptTo", "1")) for content in calls) == 5


@each_kind
async def test_nothing_starts_when_the_window_is_over(kind: Kind, simulator: Simulator) -> None:
    async with opened(kind.open(simulator)) as sender:
        outcomes = await sender.send([kind.message(simulator)], SendWindow(5.0, lambda: False))
    assert isinstance(outcomes[0], NotSent)
    assert await simulator.messages(kind.provider) == []


@each_kind
async def test_late_answer_is_ambiguous_within_the_deadline(kind: Kind, simulator: Simulator) -> None:
    await simulator.fault(kind.provider, delayMs=20_000, **kind.delay)
    async with opened(kind.open(simulator)) as sender:
        started = time.monotonic()
        (outcome,) = await sender.send([kind.message(simulator)], SHORT)
    assert isinstance(outcome, Ambiguous), outcome
    assert time.monotonic() - started < 3


@each_kind
async def test_reply_lost_after_acceptance_is_ambiguous_and_never_sent_again(kind: Kind, simulator: Simulator) -> None:
    async with opened(kind.open(simulator)) as sender:
        await sender.send([kind.message(simulator)], WINDOW)  # so that a kept connection is used
        await simulator.fault(kind.provider, times=1, drop="afterAccept", **kind.drop)
        (outcome,) = await sender.send([kind.message(simulator)], WINDOW)
    assert isinstance(outcome, Ambiguous), outcome
    assert len(await simulator.accepted(kind.provider)) == 2


@each_kind
async def test_unreachable_is_transient_and_known_as_not_processed(kind: Kind, simulator: Simulator) -> None:
    async with opened(kind.refused(simulator)) as sender:
        (outcome,) = await sender.send([kind.message(simulator, nowhere=True)], WINDOW)
    assert isinstance(outcome, Transient), outcome
    assert outcome.not_processed


@each_kind
async def test_after_a_fault_the_next_one_goes_out(kind: Kind, simulator: Simulator) -> None:
    await simulator.fault(kind.provider, times=1, drop="afterAccept", **kind.drop)
    async with opened(kind.open(simulator)) as sender:
        await sender.send([kind.message(simulator)], WINDOW)
        (outcome,) = await sender.send([kind.message(simulator)], WINDOW)
    assert isinstance(outcome, Accepted), outcome


async def test_simulated_sender_keeps_the_contract() -> None:
    sender = SimulatedSender()
    message = prepared("SMS")
    (outcome,) = await sender.send([message], WINDOW)
    assert outcome == Accepted(str(message.key.reference_uuid))
    (outcome,) = await sender.send([message], SendWindow(5.0, lambda: False))
    assert isinstance(outcome, NotSent)


@pytest.mark.parametrize(
    "context",
    [
        pytest.param(lambda sim: APNS.open(sim.apns(ca_file=None)), id="apns"),
        pytest.param(lambda sim: SMTP.open(sim.smtp(ca_file=None)), id="smtp"),
    ],
)
async def test_untrusted_certificate_is_the_providers_trouble_not_the_messages(
    context: Callable[[Simulator], Any], simulator: Simulator
) -> None:
    async with opened(context(simulator)) as sender:
        (outcome,) = await sender.send([prepared("IOS" if sender.provider == "apns" else "EMAIL")], WINDOW)
    assert isinstance(outcome, ProviderDown), outcome


# ---------------------------------------------------------------- e-mail


async def test_mail_as_the_receiver_gets_it(simulator: Simulator) -> None:
    message = prepared(
        "EMAIL", content={"subject": "Siparişiniz kargoda: ğüşıöç", "text": "Merhaba\n", "html": "<p>Şimdi</p>"}
    )
    async with opened(SMTP.open(simulator.smtp())) as sender:
        await sender.send([message], WINDOW)
    (received,) = await simulator.accepted("smtp")
    assert received["to"] == "ayse@example.com"
    assert received["reference"] == message.key.reference
    content = received["content"]
    assert content["subject"] == "Siparişiniz kargoda: ğüşıöç"
    assert content["html"].strip() == "<p>Şimdi</p>"


async def test_dots_and_long_lines_arrive_identical_E7(simulator: Simulator) -> None:
    text = "ilk\n.\n..iki\n" + "ş" * 3000 + "\n.\nson\n"
    async with opened(SMTP.open(simulator.smtp())) as sender:
        (outcome,) = await sender.send([prepared("EMAIL", content={"subject": "s", "text": text})], WINDOW)
    assert isinstance(outcome, Accepted), outcome
    (received,) = await simulator.accepted("smtp")
    assert received["content"]["text"].replace("\r\n", "\n") == text


@pytest.mark.parametrize(
    ("address", "received_by"),
    [("ayse@çiçek.example", "ayse@xn--iek-1lab.example"), ("ayşe@example.com", "ayşe@example.com")],
    ids=["idn-domain", "smtputf8"],
)
async def test_non_ascii_address_E2(address: str, received_by: str, simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp())) as sender:
        (outcome,) = await sender.send([prepared("EMAIL", address=address)], WINDOW)
    assert isinstance(outcome, Accepted), outcome
    (received,) = await simulator.accepted("smtp")
    assert received["to"] == received_by


@pytest.mark.parametrize("phase", ["mail", "rcpt", "data", "dataEnd"])
async def test_421_is_transient_and_the_next_mail_goes_out_E4(phase: str, simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp())) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
        await simulator.fault("smtp", times=2, smtp={"phase": phase, "code": 421, "text": "4.3.2 closing"})
        (first,) = await sender.send([prepared("EMAIL")], WINDOW)
        assert isinstance(first, Transient), first
        assert first.not_processed
        await simulator.forget()
        (second,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(second, Accepted), second


async def test_stale_pooled_connection_is_replaced_without_a_bounce_E4(simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp())) as sender:
        await sender.send([prepared("EMAIL")], WINDOW)
        await simulator.fault("smtp", times=1, drop="beforeRead", smtp={"phase": "mail"})
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome


@pytest.mark.parametrize(
    ("phase", "code", "text", "expected"),
    [
        ("rcpt", 550, "5.1.1 no such user", TargetGone),
        ("rcpt", 550, "5.7.1 policy", Permanent),
        ("rcpt", 451, "4.7.1 greylisted", Transient),
        ("dataEnd", 554, "5.6.0 spam", Permanent),
        ("dataEnd", 452, "4.3.1 full", Transient),
        ("greeting", 554, "no service", ProviderDown),
    ],
)
async def test_smtp_refusals(phase: str, code: int, text: str, expected: type[Outcome], simulator: Simulator) -> None:
    await simulator.fault("smtp", times=1, smtp={"phase": phase, "code": code, "text": text})
    async with opened(SMTP.open(simulator.smtp())) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
        assert isinstance(outcome, expected), outcome
        (after,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(after, Accepted), after


async def test_connections_are_kept_and_bounded(simulator: Simulator) -> None:
    async with opened(SMTP.open(simulator.smtp(concurrency=3))) as sender:
        batches = [[prepared("EMAIL") for _ in range(10)] for _ in range(3)]
        results = await asyncio.gather(*(sender.send(batch, WINDOW) for batch in batches))
    assert all(isinstance(outcome, Accepted) for outcomes in results for outcome in outcomes)


# ---------------------------------------------------------------- push


async def test_apns_request_as_apple_sees_it_P7(simulator: Simulator) -> None:
    campaign = new_id()
    message = prepared("IOS", campaign_id=campaign, collapse_key="order-98213", content={"title": "ş", "body": "ğ"})
    async with opened(APNS.open(simulator.apns())) as sender:
        await sender.send([message], WINDOW)
    (received,) = await simulator.accepted("apns")
    headers, payload = received["content"]["headers"], received["content"]["payload"]
    assert received["content"]["problems"] == []
    assert UUID(headers["apns-id"]) == message.key.reference_uuid
    assert headers["apns-collapse-id"] == "order-98213"
    assert headers["apns-expiration"] == str(int(message.expires_at.timestamp()))
    assert payload["aps"]["alert"] == {"title": "ş", "body": "ğ"}
    assert payload["notificationId"].startswith("ntf_")
    assert payload["campaignId"].startswith("cmp_")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("deadbeef" + "0" * 56, TargetGone("Unregistered")),
        ("baddc0de" + "0" * 56, Permanent("BadDeviceToken", dead_letter=False, of_account=True)),
        ("feed0429" + "0" * 56, Throttled(Scope.TARGET, "TooManyRequests")),
        ("feed0503" + "0" * 56, Transient("ServiceUnavailable")),
    ],
)
@pytest.mark.parametrize("engine", ["transport", "aioapns"])
async def test_apns_refusals(engine: str, token: str, expected: Outcome, simulator: Simulator) -> None:
    async with opened(APNS.open(simulator.apns(engine=engine))) as sender:
        (outcome,) = await sender.send([prepared("IOS", address=token)], WINDOW)
    assert outcome == expected


async def test_one_provider_token_for_all_connections_P4(simulator: Simulator) -> None:
    async with opened(APNS.open(simulator.apns())) as sender:
        outcomes = await sender.send([prepared("IOS") for _ in range(50)], WINDOW)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)


async def test_goaway_loses_nothing_and_doubles_nothing_P5(simulator: Simulator) -> None:
    async with opened(APNS.open(simulator.apns())) as sender:
        await sender.send([prepared("IOS")], WINDOW)
        await simulator.fault("apns", times=1, http2={"goaway": {"processed": False}})
        outcomes = await sender.send([prepared("IOS") for _ in range(20)], WINDOW)
    accepted = await simulator.accepted("apns")
    references = [message["reference"] for message in accepted]
    assert len(set(references)) == len(references)
    assert len(references) - 1 == sum(isinstance(outcome, Accepted) for outcome in outcomes)
    assert all(isinstance(outcome, Accepted | Transient | Ambiguous) for outcome in outcomes)


async def test_fcm_message_as_google_sees_it(simulator: Simulator) -> None:
    message = prepared("ANDROID", collapse_key="order-98213")
    async with opened(FCM.open(simulator.fcm())) as sender:
        (outcome,) = await sender.send([message], WINDOW)
    assert isinstance(outcome, Accepted)
    (received,) = await simulator.accepted("fcm")
    assert received["to"] == "token-1"
    sent = received["content"].get("message", received["content"])
    assert sent["notification"] == {"title": "Kargonuz yolda", "body": "İyi günler"}
    assert sent["data"]["reference"] == message.key.reference


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("unregistered-1", TargetGone("UNREGISTERED")),
        ("invalid-1", Permanent("INVALID_ARGUMENT")),
        ("mismatch-1", Permanent("SENDER_ID_MISMATCH: the token belongs to another Firebase project")),
        ("quota-1", Throttled(Scope.ACCOUNT, "QUOTA_EXCEEDED", 60.0)),
        ("unavailable-1", Transient("UNAVAILABLE")),
        ("third-party-auth-1", ProviderDown("THIRD_PARTY_AUTH_ERROR: check the Web Push key of the project")),
    ],
)
async def test_fcm_refusals_P8(token: str, expected: Outcome, simulator: Simulator) -> None:
    async with opened(FCM.open(simulator.fcm())) as sender:
        (outcome,) = await sender.send([prepared("ANDROID", address=token)], WINDOW)
    assert outcome == expected


async def test_three_of_501_fail_and_they_alone_are_not_accepted_P9(simulator: Simulator) -> None:
    """One request a token, over places that are bounded: no batch to cut, and none is empty."""
    failing = {17, 250, 500}
    batch = [
        prepared("ANDROID", address="unavailable-1" if number in failing else f"token-{number}")
        for number in range(501)
    ]
    async with opened(FCM.open(simulator.fcm(concurrency=20))) as sender:
        assert sender.concurrency == 20
        assert list(await sender.send([], WINDOW)) == []
        outcomes = await sender.send(batch, SendWindow(60.0))
    assert {number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Accepted)} == failing
    assert {outcomes[number] for number in failing} == {Transient("UNAVAILABLE")}
    async with plain_client(trust_env=False) as client:
        stats = (await client.get(f"{simulator.url}/_sim/stats")).raise_for_status().json()["providers"]["fcm"]
    assert (stats["calls"], stats["accepted"]) == (501, 498)


async def test_fcm_access_token_is_refreshed_once_when_refused(simulator: Simulator) -> None:
    async with opened(FCM.open(simulator.fcm())) as sender:
        await sender.send([prepared("ANDROID")], WINDOW)
        await simulator.fault("fcm", times=1, status=401)
        (outcome,) = await sender.send([prepared("ANDROID")], WINDOW)
    assert isinstance(outcome, Accepted), outcome


# ---------------------------------------------------------------- SMS


async def test_sms_as_twilio_sees_it(simulator: Simulator) -> None:
    message = prepared("SMS", attempt=2, expires_at=datetime.now(UTC) + timedelta(seconds=120))
    settings = simulator.twilio(public_callback_url="http://127.0.0.1:1/")
    async with opened(TWILIO.open(settings)) as sender:
        (outcome,) = await sender.send([message], WINDOW)
    assert isinstance(outcome, Accepted)
    assert (outcome.message_id or "").startswith("SM")
    (received,) = await simulator.accepted("twilio")
    assert received["to"] == "+905321234567"
    assert received["reference"] == message.key.reference
    assert received["content"]["body"] == "Siparişiniz yolda"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"status": 400, "body": {"code": 21610, "status": 400}}, TargetGone("21610 recipient has opted out")),
        (
            {"status": 429, "body": {"code": 20429, "status": 429}, "headers": {"Retry-After": "17"}},
            Throttled(Scope.ACCOUNT, "20429 too many requests", 17.0),
        ),
        ({"status": 401, "body": {"code": 20003, "status": 401}}, ProviderDown("20003 authentication refused")),
        ({"status": 503}, Transient("503 from Twilio")),
    ],
    ids=["21610", "20429", "20003", "503"],
)
async def test_twilio_refusals_S7(fault: dict[str, Any], expected: Outcome, simulator: Simulator) -> None:
    await simulator.fault("twilio", times=1, **fault)
    async with opened(TWILIO.open(simulator.twilio())) as sender:
        (outcome,) = await sender.send([prepared("SMS")], WINDOW)
    assert outcome == expected
