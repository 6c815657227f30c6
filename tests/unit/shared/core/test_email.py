"""E-mail requests: what is taken, what is refused and with which words."""

from typing import Any

import pytest

from shared.core.address import InvalidAddressError, parse_mailbox
from shared.core.email import (
    MAX_ATTACHMENTS,
    MAX_RECIPIENTS,
    AttachmentRef,
    EmailRequest,
    Field,
    InvalidEmailError,
    attachments_json,
    parse_attachments,
    parse_recipients,
    recipients_from_json,
    recipients_json,
    request_from_json,
    request_json,
)


@pytest.mark.parametrize(
    ("text", "name", "address"),
    [
        pytest.param("ayse@example.com", "", "ayse@example.com", id="bare"),
        pytest.param("Ayşe Yılmaz <ayse@example.com>", "Ayşe Yılmaz", "ayse@example.com", id="named"),
        pytest.param('"Yılmaz, Ayşe" <ayse@example.com>', "Yılmaz, Ayşe", "ayse@example.com", id="quoted-comma"),
        pytest.param(r'"A \"B\" \\ C" <a@example.com>', r'A "B" \ C', "a@example.com", id="escaped"),
        pytest.param("<ayse@example.com>", "", "ayse@example.com", id="angle-alone"),
        pytest.param("ayse@müşteri.example", "", "ayse@xn--mteri-kva70e.example", id="idn-E2"),
        pytest.param("mıke@example.com", "", "mıke@example.com", id="dotless-i-stays-E3"),
        pytest.param("עמית <amit@example.com>", "עמית", "amit@example.com", id="right-to-left"),
    ],
)
def test_mailboxes(text: str, name: str, address: str) -> None:
    mailbox = parse_mailbox(text)
    assert mailbox.name == name
    assert mailbox.address.text == address
    assert parse_mailbox(str(mailbox)) == mailbox


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ayse",
        "ayse@",
        "ayse@example.com\r\nBcc: all@example.com",
        "Ayşe\n <ayse@example.com>",
        "a\x00@example.com",
        "a@example.com, b@example.com",
        "<a@example.com> <b@example.com>",
        f"{'n' * 201} <a@example.com>",
        "Bank \u202emoc.elpmaxe <a@example.com>",
        "\u2067Bank\u2069 <a@example.com>",
        "A\u2028B <a@example.com>",
    ],
)
def test_what_is_no_mailbox_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InvalidAddressError) as refused:
        parse_mailbox(text)
    assert "example.com" not in str(refused.value).replace("name@example.com", "")


def test_each_address_once_and_the_first_mention_counts() -> None:
    found = parse_recipients(["A@Example.com", "b@example.com"], ["a@example.com"], ["c@example.com", "B@example.com"])
    assert [(entry.field, entry.mailbox.address.text) for entry in found] == [
        (Field.TO, "A@example.com"),
        (Field.TO, "b@example.com"),
        (Field.BCC, "c@example.com"),
    ]


@pytest.mark.parametrize(
    ("to", "cc", "path"),
    [
        pytest.param([], [], "to", id="nobody"),
        pytest.param(["a@example.com", "nobody"], [], "to.1", id="second"),
        pytest.param(["a@example.com"], ["x"], "cc.0", id="cc"),
        pytest.param("a@example.com", [], "to", id="text-for-a-list"),
        pytest.param([7], [], "to.0", id="number"),
        pytest.param([f"u{n}@example.com" for n in range(MAX_RECIPIENTS + 1)], [], "to", id="too-many"),
    ],
)
def test_recipients_that_are_refused(to: Any, cc: Any, path: str) -> None:
    with pytest.raises(InvalidEmailError) as refused:
        parse_recipients(to, cc)
    assert refused.value.path == path


def _file(**changed: object) -> dict[str, object]:
    return {"filename": "fatura.pdf", "contentType": "application/pdf", "storageRef": "s3://files/1"} | changed


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        pytest.param([_file(filename="../etc/passwd")], "attachments.0.filename", id="folder"),
        pytest.param([_file(filename="a\r\nX: y")], "attachments.0.filename", id="line-break"),
        pytest.param([_file(), _file(filename="setup.EXE")], "attachments.1.filename", id="program"),
        pytest.param([_file(contentType="pdf")], "attachments.0.contentType", id="no-media-type"),
        pytest.param([_file(contentType="multipart/mixed")], "attachments.0.contentType", id="multipart"),
        pytest.param([_file(storageRef="")], "attachments.0.storageRef", id="no-reference"),
        pytest.param([_file(storageRef="https://files.example/1")], "attachments.0.storageRef", id="other-scheme"),
        pytest.param([_file(), _file(storageRef="file:../a")], "attachments.1.storageRef", id="out-of-its-folder"),
        pytest.param([_file(filename="invoice\u202efdp.pdf")], "attachments.0.filename", id="turned-over"),
        pytest.param([_file(contentId="a b")], "attachments.0.contentId", id="content-id"),
        pytest.param([_file(data="...")], "attachments.0.data", id="blob-instead-of-a-reference"),
        pytest.param(["file"], "attachments.0", id="text"),
        pytest.param([_file()] * (MAX_ATTACHMENTS + 1), "attachments", id="too-many"),
    ],
)
def test_attachments_that_are_refused(entries: list[Any], path: str) -> None:
    with pytest.raises(InvalidEmailError) as refused:
        parse_attachments(entries)
    assert refused.value.path == path


def test_what_is_stored_reads_back_the_same() -> None:
    request = EmailRequest(
        recipients=parse_recipients(["Ayşe <ayse@example.com>"], ["b@example.com"], ["c@example.com"]),
        template="INVOICE",
        parameters={"no": "7", "total": 12.5},
        type="ORDER",
        locale="tr",
        user_id="7",
        attachments=(AttachmentRef("fatura.pdf", "application/pdf", "s3://files/1", "logo"),),
    )
    assert request_from_json(request_json(request)) == request
    assert recipients_from_json(recipients_json(request.recipients)) == request.recipients
    assert parse_attachments(attachments_json(request.attachments)) == request.attachments
    assert "example.com" not in repr(request)
    assert "fatura" not in repr(request)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"recipients": {}}', b"7"])
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidEmailError):
        request_from_json(text)
    with pytest.raises(InvalidEmailError):
        recipients_from_json(text)
