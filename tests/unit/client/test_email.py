"""What can be asked for as an e-mail. Ulak checks again: what it takes, the client must not refuse."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulak_client import Attachment, Email
from ulak_client.address import check_mailbox

from shared.core.address import InvalidAddressError, parse_mailbox
from shared.core.email import InvalidEmailError, parse_attachments, recipients_from_json


def email(**changes: Any) -> Email:
    return Email(**{"to": ["ayse@example.com"], "template": "T", **changes})


def test_the_snapshot_is_one_that_ulak_reads() -> None:
    mail = email(
        to=["Ayşe Yılmaz <ayse@example.com>", '"Yılmaz, Can" <can@example.com>'],
        cc=["info@münchen.example"],
        bcc=["zeynep@example.com"],
        parameters={"name": "İğne"},
    )
    assert json.loads(mail.recipients_json()) == {
        "to": ["Ayşe Yılmaz <ayse@example.com>", '"Yılmaz, Can" <can@example.com>'],
        "cc": ["info@münchen.example"],
        "bcc": ["zeynep@example.com"],
    }
    assert [(found.field, str(found.mailbox)) for found in recipients_from_json(mail.recipients_json())] == [
        ("to", '"Ayşe Yılmaz" <ayse@example.com>'),
        ("to", '"Yılmaz, Can" <can@example.com>'),
        ("cc", "info@xn--mnchen-3ya.example"),
        ("bcc", "zeynep@example.com"),
    ]
    assert mail.parameters_json() == '{"name":"İğne"}'.encode()


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"to": []}, ValueError, "an e-mail needs an address in to"),
        ({"to": "ayse@example.com"}, TypeError, "give a list of addresses"),
        ({"to": ["ayse@example.com", "nobody"]}, ValueError, r"to\.1 is not an e-mail address: give name@example"),
        ({"to": [7]}, TypeError, r"to\.0 is int"),
        ({"cc": ["a@example.com\r\nBcc: b@example.com"]}, ValueError, r"cc\.0 holds a control character"),
        ({"bcc": ["x" * 65 + "@example.com"]}, ValueError, r"bcc\.0 has more than 64 octets"),
        ({"to": ["Bank \u202emoc.elpmaxe <a@example.com>"]}, ValueError, r"to\.0 holds U\+202E, which turns the text"),
        ({"to": ["A\u2028B <a@example.com>"]}, ValueError, r"to\.0 holds a control character"),
        ({"to": ["x" * 201 + " <a@example.com>"]}, ValueError, "name longer than 200"),
        ({"to": ["a@example.com"] * 51}, ValueError, "at most 50 recipients"),
        ({"to": ["a@example.com"] * 25, "cc": ["a@example.com"] * 26}, ValueError, "at most 50 recipients"),
        ({"template": ""}, ValueError, "template has 0 characters"),
        ({"template": None}, TypeError, "template is NoneType"),
        ({"template": "A\x00B"}, ValueError, "template holds a control character"),
        ({"type": "x" * 65}, ValueError, "type has 65 characters"),
        ({"user_id": ""}, ValueError, "user_id"),
        ({"locale": "turkish please"}, ValueError, "locale is one like tr or tr-TR"),
        ({"priority": "urgent"}, ValueError, "use critical, tx, bulk, low"),
        ({"parameters": {"at": object()}}, TypeError, "parameters is not JSON .*object"),
        ({"parameters": [1]}, TypeError, "parameters is list: give a mapping"),
        ({"expires_in": timedelta(0)}, ValueError, "positive duration"),
        ({"model": "C"}, ValueError, "model is A, B or None"),
        ({"attachments": [Attachment("a", "a/b", "file:c")] * 21}, ValueError, "at most 20 attachments"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once_without_its_address(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as refused:
        email(**changes)
    assert "@example.com" not in str(refused.value).replace("name@example.com", "")


def test_repr_shows_no_address_and_no_parameter() -> None:
    shown = repr(email(to=["Ayşe <ayse@example.com>"], parameters={"code": "482913"}))
    assert "ayse" not in shown
    assert "482913" not in shown


_MAILBOXES = st.one_of(
    st.emails(),
    st.builds("{} <{}>".format, st.text(max_size=20), st.emails()),
    st.sampled_from(
        ["a@b.example", "ı@example.com", " a@b.example ", '"A" <a@b.example>', "<a@b.example>", "a@b。example"]
    ),
    st.text(max_size=30),
)


@given(_MAILBOXES)
def test_an_address_that_ulak_takes_is_not_refused(text: str) -> None:
    try:
        parse_mailbox(text)
    except InvalidAddressError:
        return
    check_mailbox("to.0", text)


ATTACHMENTS = [
    ("fatura.pdf", "application/pdf", "s3://invoices/1.pdf", None),
    ("şema 1.png", "image/png", "file:folder/name", "logo-1"),
    ("", "application/pdf", "s3://abc/b", None),
    ("../etc/passwd", "application/pdf", "s3://abc/b", None),
    ("a\nb.pdf", "application/pdf", "s3://abc/b", None),
    ("x" * 201, "application/pdf", "s3://abc/b", None),
    ("Setup.EXE", "application/octet-stream", "s3://abc/b", None),
    ("a.pdf", "pdf", "s3://abc/b", None),
    ("a.pdf", "Application/PDF", "s3://abc/b", None),
    ("a.eml", "message/rfc822", "s3://abc/b", None),
    ("a.pdf", "application/pdf", "", None),
    ("a.pdf", "application/pdf", "s3://abc/\n", None),
    ("a.pdf", "application/pdf", "s" * 1025, None),
    ("a.pdf", "application/pdf", "https://files.example/a.pdf", None),
    ("a.pdf", "application/pdf", "a.pdf", None),
    ("a.pdf", "application/pdf", "s3:bucket/key", None),
    ("a.pdf", "application/pdf", "s3://bucket", None),
    ("a.pdf", "application/pdf", "s3://Bucket/key", None),
    ("a.pdf", "application/pdf", "s3://bucket/../key", None),
    ("a.pdf", "application/pdf", "file:/etc/passwd", None),
    ("a.pdf", "application/pdf", "file:../a.pdf", None),
    ("a.pdf", "application/pdf", "file:a//b", None),
    ("a.pdf", "application/pdf", "file:a\\b", None),
    ("a.pdf", "application/pdf", "file:", None),
    ("a.pdf", "application/pdf", "file:" + "ş" * 513, None),
    ("a.pdf", "application/pdf", "file:" + "ş" * 512, None),
    ("invoice\u202efdp.exe", "application/pdf", "file:a", None),
    ("invoice\u202efdp.pdf", "application/pdf", "file:a", None),
    ("a.pdf", "application/pdf", "s3://abc/b", "<logo>"),
]


@pytest.mark.parametrize(("filename", "content_type", "storage_ref", "content_id"), ATTACHMENTS)
def test_attachments_are_checked_as_ulak_does(
    filename: str, content_type: str, storage_ref: str, content_id: str | None
) -> None:
    entry = {"filename": filename, "contentType": content_type, "storageRef": storage_ref, "contentId": content_id}
    try:
        parse_attachments([entry])
    except InvalidEmailError:
        with pytest.raises(ValueError, match="an attachment"):
            Attachment(filename, content_type, storage_ref, content_id)
    else:
        body = Attachment(filename, content_type, storage_ref, content_id).body()
        assert body == {name: value for name, value in entry.items() if value is not None}
