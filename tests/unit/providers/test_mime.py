"""Mails as a receiver reads them: fields, parts, files, signature. Read with the standard library's modern parser."""

import email
import email.policy
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.address import parse_mailbox
from shared.core.ports import Attachment, Envelope, Prepared, SenderProfile
from shared.core.reference import DeliveryKey
from shared.providers.email.header import InvalidMailError
from shared.providers.email.mime import Mail, build
from shared.providers.email.signature import InvalidKeyError
from shared.wire.channel import MessageClass
from tests.dkim_key import SigningKey

NOW = datetime(2026, 1, 15, 9, 0, tzinfo=UTC)
KEY = DeliveryKey(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), "EMAIL", b"k" * 32)
INSTALLATION = SenderProfile("no-reply@shop.example", "Mağaza, A.Ş.")
SIGNING = SigningKey()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10
TURKISH = "Pijamalı hasta yağız şoföre çabucak güvendi.\n"
ARABIC = "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر\n"
HEBREW = "\u200fדג סקרן שט בים מאוכזב ולפתע מצא חברה\n"


async def unread(_timeout_sec: float) -> bytes:
    """What an attachment's bytes come from; here they are handed over beside it."""
    raise LookupError


def message(**changes: Any) -> Prepared:
    content = {"subject": "Konu", "text": "Merhaba\n"} | changes.pop("content", {})
    base = Prepared(
        key=KEY,
        attempt=1,
        address="ayse@example.com",
        content=content,
        message_class=MessageClass.TX,
        expires_at=NOW + timedelta(hours=1),
    )
    return replace(base, **changes)


def made(*messages: Prepared, files: Sequence[bytes] = (), **more: Any) -> Mail:
    mail = build(messages or [message()], INSTALLATION, now=NOW, files=files, **more)
    assert mail.content.endswith(b"\r\n")
    assert b"\n" not in mail.content.replace(b"\r\n", b"")
    assert b"\r" not in mail.content.replace(b"\r\n", b"")
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    assert mail.needs_smtputf8 or mail.content.isascii()
    return mail


def read(mail: Mail) -> EmailMessage:
    found = email.message_from_bytes(mail.content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    assert not any(part.defects for part in found.walk())
    return found


def text_of(found: EmailMessage, kind: str) -> str | None:
    part = found.get_body((kind,))
    return None if part is None else str(part.get_content()).replace("\r\n", "\n")


def file(name: str, content_type: str = "application/pdf", content_id: str | None = None) -> Attachment:
    return Attachment(name, content_type, unread, content_id)


def enveloped(*attachments: Attachment, **more: Any) -> Envelope:
    return Envelope(message_reference="eml_1", attachments=attachments, **more)


# ---------------------------------------------------------------- fields


def test_fields_of_a_single_message() -> None:
    found = read(made(message(content={"subject": "Siparişiniz\r\nBcc: x@example.com kargoda"})))
    assert [name for name, _ in found.items()] == [
        "From",
        "To",
        "Subject",
        "Date",
        "Message-ID",
        "X-Ulak-Reference",
        "Auto-Submitted",
        "MIME-Version",
        "Content-Type",
        "Content-Transfer-Encoding",
    ]
    assert found["From"] == '"Mağaza, A.Ş." <no-reply@shop.example>'
    assert found["To"] == "ayse@example.com"
    assert found["Subject"] == "Siparişiniz Bcc: x@example.com kargoda"
    assert found["Message-ID"] == f"<{KEY.reference}@shop.example>"
    assert found["X-Ulak-Reference"] == KEY.reference
    assert found["Auto-Submitted"] == "auto-generated"
    assert found["Date"].datetime == NOW


@pytest.mark.parametrize(
    ("message_class", "value"),
    [
        (MessageClass.CRITICAL, "auto-generated"),
        (MessageClass.TX, "auto-generated"),
        (MessageClass.BULK, None),
        (MessageClass.LOW, None),
    ],
)
def test_what_a_person_did_not_ask_for_alone_is_auto_submitted(message_class: MessageClass, value: str | None) -> None:
    assert read(made(message(message_class=message_class)))["Auto-Submitted"] == value


def test_fields_of_an_envelope_are_the_same_for_all_it_goes_to() -> None:
    envelope = enveloped(
        to=(parse_mailbox("Ayşe, Y. <ayse@example.com>"), parse_mailbox("veli@çiçek.example")),
        cc=(parse_mailbox("محمد <m@example.com>"),),
        sender=SenderProfile("orders@shop.example", "Siparişler", "Yardım <help@shop.example>", "bounces@shop.example"),
    )
    group = [message(address=address, envelope=envelope) for address in ("ayse@example.com", "secret@example.com")]
    mail = made(*group)
    found = read(mail)
    assert (mail.sender, mail.recipients) == ("bounces@shop.example", ("ayse@example.com", "secret@example.com"))
    assert [(entry.display_name, entry.addr_spec) for entry in found["To"].addresses] == [
        ("Ayşe, Y.", "ayse@example.com"),
        ("", "veli@xn--iek-1lab.example"),
    ]
    assert [(entry.display_name, entry.addr_spec) for entry in found["Cc"].addresses] == [("محمد", "m@example.com")]
    assert found["From"] == "Siparişler <orders@shop.example>"
    assert found["Reply-To"] == "Yardım <help@shop.example>"
    assert found["Message-ID"] == "<eml_1@shop.example>"
    assert "bcc" not in {name.lower() for name in found}
    assert b"secret@" not in mail.content
    later = made(*group[1:])
    assert later.content == mail.content


def test_recipients_that_nobody_may_see() -> None:
    envelope = enveloped()
    mail = made(*(message(address=f"user{n}@example.com", envelope=envelope) for n in range(2)))
    assert b"\r\nTo: undisclosed-recipients:;\r\n" in mail.content
    assert b"user" not in mail.content


def test_sender_without_a_return_path_is_the_envelopes_too() -> None:
    assert made().sender == "no-reply@shop.example"
    assert made(message(envelope=enveloped(sender=SenderProfile("a@shop.example", return_path="")))).sender == ""


@pytest.mark.parametrize(
    ("address", "recipient", "smtputf8"),
    [
        ("ayse@example.com", "ayse@example.com", False),
        ("ayse@çiçek.example", "ayse@xn--iek-1lab.example", False),
        ("ayşe@example.com", "ayşe@example.com", True),
    ],
)
def test_non_ascii_addresses_E2(address: str, recipient: str, smtputf8: bool) -> None:
    mail = made(message(address=address))
    assert (mail.recipients, mail.needs_smtputf8) == ((recipient,), smtputf8)
    assert f"To: {recipient}\r\n".encode() in mail.content


def test_relay_without_smtputf8_gets_a_header_that_it_can_read_E2() -> None:
    envelope = enveloped(to=(parse_mailbox("Ayşe <ayşe@example.com>"), parse_mailbox("veli@example.com")))
    mail = made(message(address="veli@example.com", envelope=envelope), smtputf8=False)
    assert not mail.needs_smtputf8
    assert [entry.addr_spec for entry in read(mail)["To"].addresses] == ["veli@example.com"]


# ---------------------------------------------------------------- parts

LOGO = file("logo.png", "image/png", "logo")
INVOICE = file("Fatura – Ocak.pdf")
HTML = {"html": '<p>Şimdi <img src="cid:logo"></p>'}
ALTERNATIVE = "(multipart/alternative text/plain text/html)"
RELATED = "(multipart/alternative text/plain (multipart/related text/html image/png))"


def tree(part: EmailMessage) -> str:
    if not part.is_multipart():
        return part.get_content_type()
    children = " ".join(tree(child) for child in part.iter_parts() if isinstance(child, EmailMessage))
    return f"({part.get_content_type()} {children})"


@pytest.mark.parametrize(
    ("content", "attachments", "expected"),
    [
        pytest.param({}, (), "text/plain", id="text"),
        pytest.param(HTML, (), ALTERNATIVE, id="html"),
        pytest.param(HTML, (LOGO,), RELATED, id="inline"),
        pytest.param(HTML, (INVOICE,), f"(multipart/mixed {ALTERNATIVE} application/pdf)", id="file"),
        pytest.param(HTML, (INVOICE, LOGO), f"(multipart/mixed {RELATED} application/pdf)", id="both"),
        pytest.param({}, (INVOICE,), "(multipart/mixed text/plain application/pdf)", id="text-and-file"),
        pytest.param({}, (LOGO,), "(multipart/mixed text/plain image/png)", id="inline-without-html"),
    ],
)
def test_parts_and_what_is_in_them(content: dict[str, str], attachments: tuple[Attachment, ...], expected: str) -> None:
    envelope = enveloped(*attachments)
    data = [PNG + entry.filename.encode() for entry in attachments]
    found = read(made(message(content={"text": TURKISH} | content, envelope=envelope), files=data))
    assert tree(found) == expected
    assert text_of(found, "plain") == TURKISH
    assert text_of(found, "html") == content.get("html")
    parts = {part.get_filename(): part for part in found.walk() if part.get_filename() is not None}
    assert {name: part.get_payload(decode=True) for name, part in parts.items()} == {
        entry.filename: body for entry, body in zip(attachments, data, strict=True)
    }
    for entry in attachments:
        part = parts[entry.filename]
        assert part["Content-ID"] == (None if entry.content_id is None else f"<{entry.content_id}>")
        assert part.get_content_disposition() == ("attachment" if entry.content_id is None else "inline")


@pytest.mark.parametrize("data", [b"", b"\x00", PNG, b"\r\n.\r\n" * 100, b"--=_mixed--\r\n" * 10])
def test_files_arrive_identical(data: bytes) -> None:
    found = read(made(message(envelope=enveloped(INVOICE)), files=[data]))
    (part,) = found.iter_attachments()
    assert part.get_payload(decode=True) == data


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Hello\nworld\n", id="plain"),
        pytest.param(TURKISH * 20, id="turkish"),
        pytest.param(ARABIC * 20, id="arabic"),
        pytest.param(HEBREW * 3, id="hebrew"),
        pytest.param("ilk\n.\n..iki\n.\n", id="dots"),
        pytest.param("ş" * 3000 + "\n.\n" + "a" * 3000 + "\n", id="long-lines"),
        pytest.param("blank at the end \ntab\t\n  \nFrom here\n>From there\n", id="white-space-and-from"),
        pytest.param("--=_alternative\n\n--=_mixed--\n=_=_\n", id="boundaries"),
        pytest.param("no line end", id="no-line-end"),
        pytest.param("=C5=9F = ? _\n", id="looks-encoded"),
        pytest.param("\x00\x07\x0b\x0c\x1b[31m\x7f\n", id="controls"),
        pytest.param("a\u2028b\u2029c\x85d\n", id="unicode-line-ends"),
        pytest.param("", id="empty"),
        pytest.param("\n\n\n", id="empty-lines"),
        pytest.param("😀" * 500 + "\n", id="emoji"),
    ],
)
@pytest.mark.parametrize("with_html", [False, True])
def test_text_arrives_identical_E7(text: str, *, with_html: bool) -> None:
    content = {"text": text} | ({"html": text} if with_html else {})
    mail = made(message(content=content))
    found = read(mail)
    ended = text if with_html or text.endswith("\n") else text + "\n"
    assert text_of(found, "plain") in {text, ended}
    assert text_of(found, "html") == ((text or None) if with_html else None)
    assert not any(line.startswith(b"From ") or line.endswith((b" ", b"\t")) for line in body_lines(mail))


def body_lines(mail: Mail) -> list[bytes]:
    return mail.content.partition(b"\r\n\r\n")[2].split(b"\r\n")


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=400)


@given(TEXTS, TEXTS)
def test_any_text_arrives_identical_in_short_lines_E7(text: str, html: str) -> None:
    found = read(made(message(content={"text": text, "html": html or " "})))
    assert text_of(found, "plain") == text
    assert text_of(found, "html") == (html or " ")


def test_line_ends_of_all_kinds_are_one() -> None:
    assert text_of(read(made(message(content={"text": "a\r\nb\rc\nd\r\n"}))), "plain") == "a\nb\nc\nd\n"


def test_same_message_is_the_same_bytes_at_every_attempt() -> None:
    envelope = enveloped(INVOICE, LOGO)
    both = [made(message(content=HTML, envelope=envelope, attempt=n), files=[PNG, PNG]).content for n in (1, 2)]
    assert both[0] == both[1]


# ---------------------------------------------------------------- ways in

EVIL = "x\r\nBcc: victim@example.com\r\n\r\n<h1>evil</h1>"
EVIL_WORD = "=?utf-8?q?x=0D=0ABcc:_victim=40example.com=0D=0A=0D=0Aevil?="


@pytest.mark.parametrize(
    "text", [EVIL, EVIL_WORD, EVIL.replace("\r\n", "\n"), EVIL.replace("\r\n", "\r"), "\u2028".join(EVIL.split())]
)
@pytest.mark.parametrize("place", ["subject", "from_name", "to_name", "file_name", "inline_name"])
def test_text_stays_in_its_field(place: str, text: str) -> None:
    names = {place: text}
    mailbox = replace(parse_mailbox("ayse@example.com"), name=names.get("to_name", "Ayşe"))
    envelope = enveloped(
        file(names.get("file_name", "a.pdf")),
        file(names.get("inline_name", "a.png"), "image/png", "logo"),
        to=(mailbox,),
        sender=SenderProfile("orders@shop.example", names.get("from_name", "Shop")),
    )
    content = HTML | {"subject": names.get("subject", "s")}
    mail = made(message(content=content, envelope=envelope), files=[b"1", b"2"])
    found = read(mail)
    expected = read(made(message(content=HTML, envelope=enveloped(file("a"), LOGO)), files=[b"1", b"2"]))
    assert [name for name, _ in found.items()] == [name for name, _ in expected.items()]
    assert tree(found) == tree(expected)
    assert [part.keys() for part in found.walk()] == [part.keys() for part in expected.walk()]
    assert b"<h1>evil</h1>" not in mail.content.split(b"\r\n")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"address": "a@example.com>\r\nRCPT TO:<b@example.com"}, id="address"),
        pytest.param({"address": "a@example.com\nBcc: b@example.com"}, id="address-line-end"),
        pytest.param({"envelope": enveloped(file("a", "text/html\r\nX: y"))}, id="media-type"),
        pytest.param({"envelope": enveloped(file("a", "multipart/mixed"))}, id="multipart"),
        pytest.param({"envelope": enveloped(file("a", "image/png", "x>\r\nX: y"))}, id="content-id"),
        pytest.param({"envelope": Envelope("x>\r\nX: y")}, id="reference"),
        pytest.param({"envelope": enveloped(sender=SenderProfile("a@b.example\r\nX: y"))}, id="from"),
        pytest.param({"envelope": enveloped(sender=SenderProfile("ş@b.example"))}, id="from-smtputf8"),
        pytest.param({"envelope": enveloped(sender=SenderProfile("a@b.example", reply_to="c\r\nX: y"))}, id="reply-to"),
        pytest.param(
            {"envelope": enveloped(sender=SenderProfile("a@b.example", return_path="c@d.example>\r\nRSET"))},
            id="return-path",
        ),
    ],
)
def test_what_cannot_be_folded_is_refused(changes: dict[str, Any]) -> None:
    sent = message(**changes)
    with pytest.raises(InvalidMailError):
        build([sent], INSTALLATION, now=NOW, files=[b""] * len(sent.envelope.attachments if sent.envelope else ()))


# ---------------------------------------------------------------- signature


@pytest.mark.parametrize("content", [{}, HTML, {"text": ARABIC * 50}, {"text": "blank \n.\n\n\n"}])
@pytest.mark.parametrize("attachments", [(), (INVOICE, LOGO)])
def test_signature_is_over_what_goes_out(content: dict[str, str], attachments: tuple[Attachment, ...]) -> None:
    sender = SenderProfile("orders@shop.example", "Siparişler", "help@shop.example", dkim=SIGNING.dkim)
    envelope = enveloped(*attachments, sender=sender, cc=(parse_mailbox("Ş <s@example.com>"),))
    mail = made(message(content=content, envelope=envelope), files=[PNG for _ in attachments])
    assert mail.content.startswith(b"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;")
    assert SIGNING.verifies(mail.content)
    assert not SIGNING.verifies(mail.content.replace(b"orders@", b"owners@"))


def test_signature_of_a_mail_with_utf8_header_E2() -> None:
    envelope = enveloped(sender=SenderProfile("orders@shop.example", dkim=SIGNING.dkim))
    assert SIGNING.verifies(made(message(address="ayşe@example.com", envelope=envelope)).content)


def test_key_that_cannot_sign_is_told() -> None:
    profile = SenderProfile("orders@shop.example", dkim=replace(SIGNING.dkim, private_key=b"nothing"))
    with pytest.raises(InvalidKeyError, match="openssl genrsa"):
        made(message(envelope=enveloped(sender=profile)))


def test_one_click_unsubscribing_is_offered_under_the_signature_E8() -> None:
    key = SigningKey()
    url = "https://me.shop.example/u/AQAFRU1BSUw"
    sender = SenderProfile("orders@shop.example", "Shop", dkim=key.dkim)
    envelope = Envelope("ntf_1", sender=sender, unsubscribe_url=url)
    mail = made(message(message_class=MessageClass.BULK, envelope=envelope))
    found = read(mail)
    assert found["List-Unsubscribe"] == f"<{url}>"
    assert found["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    signed = str(found["DKIM-Signature"]).replace(" ", "").lower()
    listed = signed.partition("h=")[2].partition(";")[0].split(":")
    assert {"list-unsubscribe", "list-unsubscribe-post"} <= set(listed)
    assert key.verifies(mail.content)
    for name in (b"AQAFRU1BSUw", b"One-Click"):
        assert not key.verifies(mail.content.replace(name, name[::-1]))


def test_no_header_of_a_list_without_a_link() -> None:
    assert read(made(message(envelope=Envelope("ntf_1"))))["List-Unsubscribe"] is None
