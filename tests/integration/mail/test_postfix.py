"""Our mails through a real MTA, Postfix, to a Maildir: what arrives is what was sent, and reads as it was meant."""

import email
import email.policy
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

import pytest

from shared.core.address import parse_mailbox
from shared.core.outcome import Accepted, Outcome, Permanent, ProviderDown, TargetGone
from shared.core.ports import Attachment, Envelope, Prepared, SenderProfile
from shared.providers.email.mime import build
from shared.providers.email.smtp.client import SMTP, SmtpSender
from shared.providers.email.smtp.settings import SmtpSettings
from tests.dkim_key import SigningKey
from tests.integration.delivery.test_senders import WINDOW, prepared
from tests.integration.mail.postfix import SIZE_LIMIT, Postfix, postfix

pytestmark = pytest.mark.distribution

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
SIGNING = SigningKey()
PROFILE = SenderProfile("orders@shop.example", "Siparişler, A.Ş.", "Yardım <help@shop.example>", "bounces@shop.example")
SIGNED = SenderProfile("orders@shop.example", dkim=SIGNING.dkim)

TURKISH = "Pijamalı hasta yağız şoföre çabucak güvendi.\n"
ARABIC = "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر\n"
HEBREW = "\u200fדג סקרן שט בים מאוכזב ולפתע מצא חברה\n"
TEXTS = {
    "ascii": "Hello\nworld\n",
    "turkish": TURKISH * 20,
    "arabic": ARABIC * 20,
    "hebrew": HEBREW * 20,
    "dots": "ilk\n.\n..iki\n.\n.son\n",
    "long-lines": "ş" * 3000 + "\n.\n" + "a" * 3000 + "\n",
    "white-space": "blank \ntab\t\n  \nFrom here\n>From there\n",
    "boundaries": "--=_alternative\n--=_mixed--\n",
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10
FILES = {
    "Sipariş Faturası (Ocak).pdf": b"%PDF-1.7\r\n.\r\n" + bytes(range(256)) * 20,
    "فاتورة رقم ٩٨٢١٣.pdf": b"From here\n.\n" * 100,
    "חשבונית.txt": HEBREW.encode(),
}


@pytest.fixture(scope="module")
def mx() -> Iterator[Postfix]:
    with postfix() as server:
        yield server


async def send(settings: SmtpSettings, *messages: Prepared) -> Sequence[Outcome]:
    async with SMTP.open(settings) as sender:
        return await sender.send(messages, WINDOW)


def mail(*attachments: Attachment, content: dict[str, str] | None = None, **envelope: Any) -> Prepared:
    return prepared(
        "EMAIL",
        content={"subject": "Konu", "text": TURKISH} | (content or {}),
        envelope=Envelope(message_reference="eml_1", attachments=attachments, **envelope),
    )


def file(name: str, data: bytes, content_type: str = "application/pdf", content_id: str | None = None) -> Attachment:
    async def read(_timeout_sec: float) -> bytes:
        return data

    return Attachment(name, content_type, read, content_id)


def read(content: bytes) -> EmailMessage:
    found = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    assert not any(part.defects for part in found.walk())
    return found


def text_of(found: EmailMessage, kind: str) -> str:
    part = found.get_body((kind,))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_text_arrives_identical_E7(text: str, mx: Postfix) -> None:
    (outcome,) = await send(mx.settings(), mail(content={"text": text, "html": f"<p>{text}</p>"}, sender=SIGNED))
    assert isinstance(outcome, Accepted), outcome
    (arrived,) = await mx.delivered(1)
    assert max(map(len, arrived.content.split(b"\r\n"))) <= 998
    assert text_of(read(arrived.content), "plain") == text
    assert text_of(read(arrived.content), "html") == f"<p>{text}</p>"
    assert SIGNING.verifies(arrived.whole)


@pytest.mark.parametrize("with_html", [False, True])
async def test_every_part_arrives_byte_for_byte_and_signed(mx: Postfix, *, with_html: bool) -> None:
    attachments = [file(name, data) for name, data in FILES.items()]
    attachments.append(file("logo.png", PNG, "image/png", "logo"))
    content = {"html": '<p>Şimdi <img src="cid:logo"></p>'} if with_html else {}
    message = mail(*attachments, content=content, sender=SIGNED)
    sender = SmtpSender(mx.settings(security="none"), ssl.create_default_context(), clock=lambda: NOW)
    try:
        (outcome,) = await sender.send([message], WINDOW)
    finally:
        await sender.close()
    assert isinstance(outcome, Accepted), outcome
    (arrived,) = await mx.delivered(1)
    sent = build([message], PROFILE, now=NOW, files=[*FILES.values(), PNG])
    assert arrived.content == sent.content
    assert SIGNING.verifies(arrived.whole)
    found = {part.get_filename(): part.get_payload(decode=True) for part in read(arrived.content).walk()}
    assert {name: data for name, data in found.items() if name is not None} == FILES | {"logo.png": PNG}


async def test_names_and_subjects_are_read_as_they_were_meant(mx: Postfix) -> None:
    to = ['"Yıldız, Ayşe" <ayse@example.com>', "محمد علي <m@example.com>", "Sales (TR) <s@çiçek.example>"]
    subject = "Siparişiniz kargoya verildi: İstanbul’dan Iğdır’a 🚚 " * 5 + ARABIC.strip()
    message = mail(
        content={"subject": subject},
        to=tuple(parse_mailbox(text) for text in to),
        cc=tuple(parse_mailbox(f"Ünlü Şirket {n} <user{n}@example.com>") for n in range(20)),
        sender=PROFILE,
    )
    (outcome,) = await send(mx.settings(), message)
    assert isinstance(outcome, Accepted), outcome
    (arrived,) = await mx.delivered(1)
    found = read(arrived.content)
    assert arrived.return_path == "bounces@shop.example"
    assert found["Subject"] == subject
    assert found["From"] == '"Siparişler, A.Ş." <orders@shop.example>'
    assert found["Reply-To"] == "Yardım <help@shop.example>"
    assert found["Message-ID"] == "<eml_1@shop.example>"
    assert [(entry.display_name, entry.addr_spec) for entry in found["To"].addresses] == [
        ("Yıldız, Ayşe", "ayse@example.com"),
        ("محمد علي", "m@example.com"),
        ("Sales (TR)", "s@xn--iek-1lab.example"),
    ]
    assert len(found["Cc"].addresses) == 20


async def test_one_refused_of_several_and_nobody_sees_the_hidden_one(mx: Postfix) -> None:
    shared = Envelope("eml_2", to=(parse_mailbox("ayse@example.com"), parse_mailbox("unknown-x@example.com")))
    addresses = ("ayse@example.com", "unknown-x@example.com", "hidden@çiçek.example")
    messages = [prepared("EMAIL", address=address, envelope=shared) for address in addresses]
    outcomes = await send(mx.settings(), *messages)
    assert [type(outcome) for outcome in outcomes] == [Accepted, TargetGone, Accepted]
    assert outcomes[0] == outcomes[2]
    one, two = await mx.delivered(2)
    assert [one.to, two.to] == ["ayse@example.com", "hidden@xn--iek-1lab.example"]
    assert one.content == two.content
    assert b"hidden" not in one.content


async def test_all_refused_and_the_next_mail_on_the_same_connection(mx: Postfix) -> None:
    shared = Envelope("eml_3")
    refused = [prepared("EMAIL", address=f"unknown-{n}@example.com", envelope=shared) for n in range(2)]
    outcomes = await send(mx.settings(concurrency=1), *refused, prepared("EMAIL"))
    assert [type(outcome) for outcome in outcomes] == [TargetGone, TargetGone, Accepted]
    assert (await mx.delivered(1))[0].to == "ayse@example.com"


async def test_non_ascii_local_part_E2(mx: Postfix) -> None:
    shared = Envelope("eml_4", to=(parse_mailbox("Ayşe <ayşe@çiçek.example>"),), sender=SIGNED)
    messages = [
        prepared("EMAIL", address=address, envelope=shared) for address in ("ayşe@çiçek.example", "v@example.com")
    ]
    outcomes = await send(mx.settings(), *messages)
    assert [type(outcome) for outcome in outcomes] == [Accepted, Accepted], outcomes
    for arrived in await mx.delivered(2):
        assert "<ayşe@xn--iek-1lab.example>".encode() in arrived.content
        assert SIGNING.verifies(arrived.whole)


async def test_mail_above_the_size_limit_is_not_begun(mx: Postfix) -> None:
    before = mx.log.count("disconnect from")
    (outcome,) = await send(mx.settings(), mail(file("a.bin", bytes(SIZE_LIMIT))))
    assert isinstance(outcome, Permanent), outcome
    assert f"the relay takes {SIZE_LIMIT}" in outcome.detail
    (fits,) = await send(mx.settings(), mail(file("a.bin", bytes(SIZE_LIMIT // 2))))
    assert isinstance(fits, Accepted), fits
    await mx.delivered(1)
    first = [line for line in mx.log.splitlines() if "disconnect from" in line][before]
    assert "mail=" not in first


@pytest.mark.parametrize(
    ("changes", "expected", "encrypted"),
    [
        pytest.param({}, Accepted, True, id="required"),
        pytest.param({"ca_file": None}, ProviderDown, False, id="required-untrusted"),
        pytest.param({"ca_file": None, "security": "opportunistic"}, Accepted, True, id="opportunistic"),
        pytest.param({"security": "none"}, Accepted, False, id="none"),
    ],
)
async def test_starttls(changes: dict[str, Any], expected: type[Outcome], mx: Postfix, *, encrypted: bool) -> None:
    before = mx.log.count("TLS connection established")
    (outcome,) = await send(mx.settings(**changes), prepared("EMAIL"))
    assert isinstance(outcome, expected), outcome
    if expected is Accepted:
        await mx.delivered(1)
    assert mx.log.count("TLS connection established") - before == encrypted
