"""E-mail over a vendor's HTTP API: what must survive each way, who is refused, and what every refusal means."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from shared.core.address import parse_mailbox
from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    Throttled,
    Transient,
)
from shared.core.ports import Attachment, Envelope, Prepared, SenderProfile, SendWindow
from shared.providers.email.mailgun.client import MAILGUN
from shared.providers.email.sendgrid.client import SENDGRID
from shared.providers.email.ses.client import SES
from shared.wire.channel import MessageClass
from tests.dkim_key import SigningKey
from tests.integration.delivery.conftest import Simulator
from tests.integration.delivery.test_senders import WINDOW, opened, prepared


@dataclass(frozen=True)
class Vendor:
    name: str
    limit: int
    open: Callable[..., Any]


VENDORS = [
    Vendor("ses", 40_000_000, lambda sim, **changes: SES.open(sim.ses(**changes))),
    Vendor("sendgrid", 30_000_000, lambda sim, **changes: SENDGRID.open(sim.sendgrid(**changes))),
    Vendor("mailgun", 25_000_000, lambda sim, **changes: MAILGUN.open(sim.mailgun(**changes))),
]
each_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=[vendor.name for vendor in VENDORS])
each_that_takes_mime = pytest.mark.parametrize("vendor", [VENDORS[0], VENDORS[2]], ids=["ses", "mailgun"])

PDF = b"%PDF" + bytes(range(256)) * 8
LOGO = b"\x89PNG\r\n--=_mixed\r\n" * 3


def file(name: str, kind: str, data: bytes, content_id: str | None = None) -> Attachment:
    async def read(_timeout_sec: float) -> bytes:
        return data

    return Attachment(name, kind, read, content_id)


def group(shared: Envelope, *addresses: str, **changes: Any) -> list[Prepared]:
    return [prepared("EMAIL", address=address, envelope=shared, **changes) for address in addresses]


def kinds(outcomes: Sequence[Outcome]) -> list[type[Outcome]]:
    return [type(outcome) for outcome in outcomes]


@dataclass(frozen=True)
class Received:
    """One mail, whatever a vendor was told it as."""

    recipients: list[str]
    fields: dict[str, str]
    text: str
    html: str | None
    files: dict[str, tuple[str, str | None]]
    """Name -> sha256, content id."""


def received(entry: dict[str, Any]) -> Received:
    content = entry["content"]
    files = {
        part["name"]: (part["sha256"], part["contentId"] and part["contentId"].strip("<>"))
        for part in content["attachments"]
    }
    if entry["provider"] != "sendgrid":
        assert content["problems"] == []
        return Received(content["rcptTo"], content["headers"], content["text"], content["html"], files)
    body = content["body"]
    (mail,) = body["personalizations"]
    fields = {**body.get("headers", {}), **mail["headers"], "Subject": mail["subject"]}
    shown = {"From": [body["from"]], "Reply-To": [body.get("reply_to")], "To": mail["to"], "Cc": mail.get("cc")}
    for name, mailboxes in shown.items():
        if mailboxes and mailboxes[0]:
            fields[name] = ", ".join(
                f"{box['name']} <{box['email']}>" if "name" in box else box["email"] for box in mailboxes
            )
    parts = {part["type"]: part["value"] for part in body["content"]}
    return Received(content["rcptTo"], fields, parts["text/plain"], parts.get("text/html"), files)


# ---------------------------------------------------------------- what must survive


@each_vendor
async def test_company_files_and_names_arrive_as_over_smtp(vendor: Vendor, simulator: Simulator) -> None:
    profile = SenderProfile(
        "orders@shop.example", "Siparişler", "Yardım <help@shop.example>", "bounces@shop.example", SigningKey().dkim
    )
    shared = Envelope(
        message_reference="eml_1",
        to=(parse_mailbox("Ayşe <ayse@example.com>"),),
        cc=(parse_mailbox("veli@çiçek.example"),),
        sender=profile,
        attachments=(
            file("Sipariş Faturası.pdf", "application/pdf", PDF),
            file("logo.png", "image/png", LOGO, "logo"),
        ),
    )
    content = {"subject": "Siparişiniz: ğüşıöç", "text": "Merhaba\n.\nşş\n", "html": '<img src="cid:logo">'}
    batch = group(shared, "ayse@example.com", "veli@çiçek.example", "gizli@example.com", content=content)
    async with opened(vendor.open(simulator)) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [Accepted] * 3, outcomes
    assert len(set(outcomes)) == 1
    (entry,) = await simulator.accepted(vendor.name)
    assert entry["reference"] == "eml_1"
    mail = received(entry)
    assert sorted(mail.recipients) == ["ayse@example.com", "gizli@example.com", "veli@xn--iek-1lab.example"]
    assert (mail.text, mail.html) == (content["text"], content["html"])
    assert mail.files == {
        "Sipariş Faturası.pdf": (hashlib.sha256(PDF).hexdigest(), None),
        "logo.png": (hashlib.sha256(LOGO).hexdigest(), "logo"),
    }
    shown = {name: mail.fields.get(name) for name in ("From", "Reply-To", "To", "Cc", "Subject", "Bcc")}
    assert shown == {
        "From": "Siparişler <orders@shop.example>",
        "Reply-To": "Yardım <help@shop.example>",
        "To": "Ayşe <ayse@example.com>",
        "Cc": "veli@xn--iek-1lab.example",
        "Subject": "Siparişiniz: ğüşıöç",
        "Bcc": None,
    }
    assert mail.fields["Message-ID"] == "<eml_1@shop.example>"
    assert mail.fields["X-Ulak-Reference"] == "eml_1"
    assert mail.fields["Auto-Submitted"] == "auto-generated"
    assert "DKIM-Signature" not in mail.fields


@each_vendor
async def test_one_click_unsubscribing_is_each_recipients_own_E8(vendor: Vendor, simulator: Simulator) -> None:
    links = {f"{name}@example.com": f"https://me.shop.example/u/{name}" for name in ("ayse", "veli")}
    batch = [
        prepared(
            "EMAIL",
            address=address,
            message_class=MessageClass.BULK,
            envelope=Envelope(message_reference=f"ntf_{number}", unsubscribe_url=link),
        )
        for number, (address, link) in enumerate(links.items())
    ]
    async with opened(vendor.open(simulator)) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [Accepted] * 2
    told: dict[str, tuple[str, str]] = {}
    for entry in await simulator.accepted(vendor.name):
        for mail in entry["content"].get("body", {}).get("personalizations", [entry["content"]]):
            (to,) = mail["rcptTo"] if "rcptTo" in mail else [box["email"] for box in mail["to"]]
            told[to] = (mail["headers"]["List-Unsubscribe"], mail["headers"]["List-Unsubscribe-Post"])
    assert told == {address: (f"<{link}>", "List-Unsubscribe=One-Click") for address, link in links.items()}


@each_vendor
async def test_attempts_are_told_apart_by_nothing(vendor: Vendor, simulator: Simulator) -> None:
    message = prepared("EMAIL")
    async with opened(vendor.open(simulator)) as sender:
        await sender.send([message], WINDOW)
        await sender.send([message], WINDOW)
    one, two = [received(entry) for entry in await simulator.accepted(vendor.name)]
    assert one.fields["Message-ID"] == two.fields["Message-ID"]
    assert one.fields["X-Ulak-Reference"] == message.key.reference


# ---------------------------------------------------------------- what is refused before it is sent


@each_vendor
@pytest.mark.parametrize(
    "changes",
    [
        {"address": "a@example.com>\r\nBcc: b@example.com"},
        {"address": "a@example.com\r\nX: y"},
        {"content": {"subject": "\ud83d", "text": "t"}},
        {"content": {"subject": "s", "text": "\ud83d"}},
        {"envelope": Envelope(message_reference="eml_1\r\nBcc: b@example.com")},
        {"envelope": Envelope(message_reference="eml_1", unsubscribe_url="https://x\r\nBcc: b@example.com")},
    ],
)
async def test_what_cannot_be_a_mail_is_permanent_and_stops_no_other(
    vendor: Vendor, changes: dict[str, Any], simulator: Simulator
) -> None:
    async with opened(vendor.open(simulator)) as sender:
        broken, sound = await sender.send([prepared("EMAIL", **changes), prepared("EMAIL")], WINDOW)
    assert isinstance(broken, Permanent), broken
    assert broken.detail.startswith("not a mail: ")
    assert isinstance(sound, Accepted), sound
    (entry,) = await simulator.messages(vendor.name)
    assert entry["content"]["rcptTo"] == ["ayse@example.com"]


@each_vendor
async def test_line_ends_in_names_and_subjects_open_no_field(vendor: Vendor, simulator: Simulator) -> None:
    profile = SenderProfile("orders@shop.example", "Shop\r\nBcc: x@example.com")
    shared = Envelope(message_reference="eml_1", sender=profile)
    content = {"subject": "Hi\r\nBcc: x@example.com", "text": "t\n"}
    async with opened(vendor.open(simulator)) as sender:
        (outcome,) = await sender.send(group(shared, "ayse@example.com", content=content), WINDOW)
    assert isinstance(outcome, Accepted), outcome
    (entry,) = await simulator.accepted(vendor.name)
    mail = received(entry)
    assert mail.fields["Subject"] == "Hi Bcc: x@example.com"
    assert "Shop Bcc: x@example.com" in mail.fields["From"]
    assert mail.recipients == ["ayse@example.com"]
    assert "Bcc" not in mail.fields


@each_vendor
async def test_address_that_needs_smtputf8_is_refused_and_the_others_get_the_mail_E2(
    vendor: Vendor, simulator: Simulator
) -> None:
    shared = Envelope("eml_1", to=(parse_mailbox("Ayşe <ayşe@example.com>"), parse_mailbox("veli@example.com")))
    async with opened(vendor.open(simulator)) as sender:
        refused, taken = await sender.send(group(shared, "ayşe@example.com", "veli@example.com"), WINDOW)
        (alone,) = await sender.send([prepared("EMAIL", address="ayşe@example.com")], WINDOW)
    detail = f"{vendor.name} takes no address with other than ASCII letters before the @"
    assert refused == alone == Permanent(detail, dead_letter=False)
    assert isinstance(taken, Accepted), taken
    (entry,) = await simulator.messages(vendor.name)
    assert entry["content"]["rcptTo"] == ["veli@example.com"]


@each_vendor
async def test_mail_above_the_vendors_size_is_not_begun(vendor: Vendor, simulator: Simulator) -> None:
    data = bytes(vendor.limit * 3 // 4 + 1)
    shared = Envelope("eml_1", attachments=(file("a.bin", "application/octet-stream", data),))
    async with opened(vendor.open(simulator)) as sender:
        outcomes = await sender.send(group(shared, "ayse@example.com", "veli@example.com"), WINDOW)
    assert kinds(outcomes) == [Permanent] * 2
    assert f"{vendor.name} takes {vendor.limit}: send a link instead" in str(outcomes[0])
    assert await simulator.messages(vendor.name) == []


@each_vendor
async def test_large_file_arrives_identical(vendor: Vendor, simulator: Simulator) -> None:
    data = bytes(range(256)) * 20_000
    shared = Envelope("eml_1", attachments=(file("a.bin", "application/octet-stream", data),))
    async with opened(vendor.open(simulator)) as sender:
        (outcome,) = await sender.send(group(shared, "ayse@example.com"), SendWindow(deadline_sec=60.0))
    assert isinstance(outcome, Accepted), outcome
    (entry,) = await simulator.accepted(vendor.name)
    assert received(entry).files["a.bin"][0] == hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- what a refusal means


@pytest.mark.parametrize(
    ("vendor", "fault", "expected"),
    [
        (
            0,
            {"status": 429, "headers": {"Retry-After": "17"}},
            Throttled(Scope.ACCOUNT, "TooManyRequestsException", 17),
        ),
        (0, {"status": 503}, Transient("ServiceUnavailable")),
        (0, {"status": 403}, ProviderDown("AccessDeniedException: allow ses:SendEmail to the key or role")),
        (1, {"status": 429, "headers": {"Retry-After": "17"}}, Throttled(Scope.ACCOUNT, "429 too many requests", 17)),
        (1, {"status": 503}, Transient("503 from SendGrid")),
        (1, {"status": 413}, Permanent("413 message too large")),
        (2, {"status": 429, "headers": {"Retry-After": "17"}}, Throttled(Scope.ACCOUNT, "429 too many requests", 17)),
        (2, {"status": 500}, Transient("500 from Mailgun")),
        (2, {"status": 402}, ProviderDown("402 the account's plan does not allow it")),
    ],
)
async def test_refusals_in_the_vendors_own_shape(
    vendor: int, fault: dict[str, Any], expected: Outcome, simulator: Simulator
) -> None:
    shared = Envelope("eml_1", to=(parse_mailbox("a@example.com"), parse_mailbox("b@example.com")))
    await simulator.fault(VENDORS[vendor].name, times=1, **fault)
    async with opened(VENDORS[vendor].open(simulator)) as sender:
        outcomes = await sender.send(group(shared, "a@example.com", "b@example.com"), WINDOW)
    assert list(outcomes) == [expected, expected]


@each_vendor
@pytest.mark.parametrize("drop", ["afterAccept", "midReply"])
async def test_lost_reply_is_ambiguous_for_all_and_nothing_is_sent_again(
    vendor: Vendor, drop: str, simulator: Simulator
) -> None:
    shared = Envelope("eml_1", to=(parse_mailbox("a@example.com"), parse_mailbox("b@example.com")))
    await simulator.fault(vendor.name, times=1, drop=drop)
    async with opened(vendor.open(simulator)) as sender:
        outcomes = await sender.send(group(shared, "a@example.com", "b@example.com"), WINDOW)
    assert kinds(outcomes) == [Ambiguous] * 2
    assert len(await simulator.messages(vendor.name)) == 1


@pytest.mark.parametrize(
    ("vendor", "changes", "part"),
    [
        (0, {"secret_access_key_file": None, "secret_access_key": SecretStr("wrong")}, "SignatureDoesNotMatch"),
        (0, {"access_key_id": "AKIAOTHER"}, "UnrecognizedClientException"),
        (0, {"region": "us-east-1"}, "SignatureDoesNotMatch"),
        (0, {"from_address": "unverified-x@shop.example"}, "not verified"),
        (1, {"api_key_file": None, "api_key": SecretStr("wrong")}, "401"),
        (1, {"from_address": "unverified-x@shop.example"}, "403"),
        (2, {"api_key_file": None, "api_key": SecretStr("wrong")}, "401"),
        (2, {"domain": "other.example"}, "404"),
    ],
)
async def test_wrong_account_is_the_providers_trouble_and_names_the_remedy(
    vendor: int, changes: dict[str, Any], part: str, simulator: Simulator
) -> None:
    async with opened(VENDORS[vendor].open(simulator, **changes)) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, ProviderDown), outcome
    assert part in outcome.detail
    assert await simulator.accepted(VENDORS[vendor].name) == []


# ---------------------------------------------------------------- many at once


@each_that_takes_mime
async def test_more_recipients_than_a_call_takes_are_several_calls(vendor: Vendor, simulator: Simulator) -> None:
    addresses = [f"user-{number}@example.com" for number in range(1001 if vendor.name == "mailgun" else 51)]
    async with opened(vendor.open(simulator)) as sender:
        outcomes = await sender.send(group(Envelope("eml_1"), *addresses), WINDOW)
    assert kinds(outcomes) == [Accepted] * len(addresses)
    calls = [entry["content"]["rcptTo"] for entry in await simulator.accepted(vendor.name)]
    assert sorted(len(call) for call in calls) == [1, len(addresses) - 1]
    assert sorted(address for call in calls for address in call) == sorted(addresses)


async def test_sendgrid_sends_what_is_alike_in_one_request_and_the_rest_apart(simulator: Simulator) -> None:
    alike = [prepared("EMAIL", address=f"user-{number}@example.com") for number in range(1001)]
    other = prepared("EMAIL", address="other@example.com", content={"subject": "s", "text": "another text\n"})
    async with opened(SENDGRID.open(simulator.sendgrid())) as sender:
        outcomes = await sender.send([*alike, other], WINDOW)
    assert kinds(outcomes) == [Accepted] * 1002
    calls = [entry["content"] for entry in await simulator.accepted("sendgrid")]
    assert sorted(len(call["rcptTo"]) for call in calls) == [1, 1, 1000]
    references = {
        mail["custom_args"]["reference"]: mail["to"][0]["email"]
        for call in calls
        for mail in call["body"]["personalizations"]
    }
    assert references == {message.key.reference: message.address for message in (*alike, other)}


async def test_sendgrids_refusal_of_one_recipient_keeps_no_other_from_the_mail(simulator: Simulator) -> None:
    batch = [prepared("EMAIL", address=f"{name}@example.com") for name in ("a", "b", "c")]
    batch[1].address = "b@nodot"
    async with opened(SENDGRID.open(simulator.sendgrid())) as sender:
        outcomes = await sender.send(batch, WINDOW)
    assert kinds(outcomes) == [Accepted, Permanent, Accepted]
    assert outcomes[1] == Permanent("400 personalizations.to.email", dead_letter=False)
    (entry,) = await simulator.accepted("sendgrid")
    assert entry["content"]["rcptTo"] == ["a@example.com", "c@example.com"]
    assert len(await simulator.messages("sendgrid")) == 2


async def test_sendgrid_shows_and_mails_nobody_who_is_not_of_this_attempt(simulator: Simulator) -> None:
    shared = Envelope(
        "eml_1",
        to=(parse_mailbox("gone@example.com"), parse_mailbox("Ayşe <ayse@example.com>")),
        cc=(parse_mailbox("veli@example.com"),),
    )
    async with opened(SENDGRID.open(simulator.sendgrid())) as sender:
        await sender.send(group(shared, "ayse@example.com"), WINDOW)
        await sender.send(group(shared, "veli@example.com"), WINDOW)
        await sender.send(group(shared, "gizli@example.com"), WINDOW)
    calls = [entry["content"] for entry in await simulator.accepted("sendgrid")]
    assert [call["rcptTo"] for call in calls] == [["ayse@example.com"], ["veli@example.com"], ["gizli@example.com"]]


async def test_requests_on_the_wire_are_bounded(simulator: Simulator) -> None:
    async with opened(SES.open(simulator.ses(concurrency=3))) as sender:
        results = await asyncio.gather(*(sender.send([prepared("EMAIL") for _ in range(10)], WINDOW) for _ in range(3)))
    assert all(isinstance(outcome, Accepted) for outcomes in results for outcome in outcomes)


# ---------------------------------------------------------------- SES in particular


async def test_ses_is_told_where_bounces_go_and_the_configuration_set(simulator: Simulator) -> None:
    profile = SenderProfile("orders@shop.example", return_path="bounces@shop.example")
    async with opened(SES.open(simulator.ses(configuration_set="orders"))) as sender:
        await sender.send(group(Envelope("eml_1", sender=profile), "ayse@example.com"), WINDOW)
        await sender.send([prepared("EMAIL")], WINDOW)
    told, usual = (entry["content"] for entry in await simulator.accepted("ses"))
    assert (told["feedbackTo"], told["configurationSet"]) == ("bounces@shop.example", "orders")
    assert usual["feedbackTo"] is None


@pytest.mark.parametrize(
    ("text", "wait_sec"), [("Maximum sending rate exceeded.", None), ("Daily message quota exceeded.", 600.0)]
)
async def test_ses_quotas_hold_up_the_account(text: str, wait_sec: float | None, simulator: Simulator) -> None:
    headers = {
        "x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/com.amazon.coral.availability/"
    }
    await simulator.fault("ses", times=1, status=400, headers=headers, body={"message": text})
    async with opened(SES.open(simulator.ses())) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert outcome == Throttled(Scope.ACCOUNT, "ThrottlingException", wait_sec)


async def test_ses_key_is_found_where_awss_own_tools_look(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = simulator.ses()
    assert given.access_key_id is not None
    assert given.secret_access_key is not None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given.secret_access_key.get_secret_value())
    async with opened(SES.open(simulator.ses(access_key_id=None, secret_access_key_file=None))) as sender:
        (outcome,) = await sender.send([prepared("EMAIL")], WINDOW)
    assert isinstance(outcome, Accepted), outcome
