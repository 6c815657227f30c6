"""Which messages SendGrid gets in one request, and whom each of its mails goes to and shows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from shared.core.address import parse_mailbox
from shared.core.identifier import new_id
from shared.core.ports import Attachment, Envelope, Prepared, SenderProfile
from shared.core.reference import DeliveryKey
from shared.providers.email.header import InvalidMailError
from shared.providers.email.sendgrid.request import MAX_RECIPIENTS, batches, common, personalizations
from shared.wire.channel import MessageClass

PROFILE = SenderProfile("no-reply@shop.example", "Shop")


async def read(_timeout_sec: float) -> bytes:
    return b"%PDF"


PDF = Attachment("Fatura; Mart, 2026.pdf", "application/pdf", read)


def message(address: str = "ayse@example.com", **changes: Any) -> Prepared:
    made = Prepared(
        key=DeliveryKey(new_id(), "EMAIL", b"t" * 32),
        attempt=1,
        address=address,
        content={"subject": "s", "text": "t"},
        message_class=MessageClass.BULK,
        expires_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return replace(made, **changes)


def own(**more: Any) -> Envelope:
    return Envelope(message_reference="ntf_1", **more)


@pytest.mark.parametrize(
    ("changes", "together"),
    [
        ({}, True),
        ({"content": {"subject": "another", "text": "t"}}, True),
        ({"envelope": own(unsubscribe_url="https://me.shop.example/u/1")}, True),
        ({"content": {"subject": "s", "text": "another"}}, False),
        ({"content": {"subject": "s", "text": "t", "html": "h"}}, False),
        ({"message_class": MessageClass.TX}, False),
        ({"envelope": own(sender=SenderProfile("orders@shop.example"))}, False),
        ({"envelope": own(attachments=(PDF,))}, False),
        ({"envelope": own(to=(parse_mailbox("ayse@example.com"),))}, False),
    ],
)
def test_only_what_differs_in_recipient_subject_and_own_fields_goes_together(
    changes: dict[str, Any], together: bool
) -> None:
    assert len(batches([message(), message(**changes)])) == (1 if together else 2)


def test_a_request_has_no_more_recipients_than_it_may() -> None:
    assert [len(batch) for batch in batches([message() for _ in range(MAX_RECIPIENTS + 1)])] == [MAX_RECIPIENTS, 1]


def test_order_and_count_are_kept() -> None:
    mixed = [message(content={"subject": "s", "text": str(number // 2 % 2)}) for number in range(7)]
    assert [each for batch in batches(mixed) for each in batch] == mixed


@pytest.mark.parametrize(
    ("addresses", "to", "cc", "bcc"),
    [
        (["a@x.example", "b@x.example", "c@x.example"], ["a@x.example"], ["b@x.example"], ["c@x.example"]),
        (["a@x.example", "c@x.example"], ["a@x.example"], None, ["c@x.example"]),
        (["b@x.example", "c@x.example"], ["b@x.example"], None, ["c@x.example"]),
        (["b@x.example"], ["b@x.example"], None, None),
    ],
)
def test_shown_are_those_of_the_envelope_who_get_the_mail(
    addresses: list[str], to: list[str], cc: list[str] | None, bcc: list[str] | None
) -> None:
    shared = own(to=(parse_mailbox("A <a@x.example>"),), cc=(parse_mailbox("b@x.example"),))
    (mail,), faults = personalizations([message(address, envelope=shared) for address in addresses], PROFILE)
    assert faults == {}
    assert mail.messages == tuple(range(len(addresses)))
    told = {kind: [box["email"] for box in mail.body[kind]] for kind in ("to", "cc", "bcc") if kind in mail.body}
    assert (told["to"], told.get("cc"), told.get("bcc")) == (to, cc, bcc)


def test_hidden_recipients_alone_do_not_see_each_other() -> None:
    shared = own(to=(parse_mailbox("a@x.example"),))
    mails, _ = personalizations(
        [message(address, envelope=shared) for address in ("c@x.example", "d@x.example")], PROFILE
    )
    assert [mail.body["to"] for mail in mails] == [[{"email": "c@x.example"}], [{"email": "d@x.example"}]]


def test_one_message_that_cannot_be_a_mail_stops_no_other() -> None:
    batch = [message(), message(content={"subject": " \r\n", "text": "t"}), message("a@b>\r\nX: y"), message()]
    mails, faults = personalizations(batch, PROFILE)
    assert [mail.messages for mail in mails] == [(0,), (3,)]
    assert set(faults) == {1, 2}


def test_files_have_the_names_that_sendgrid_takes() -> None:
    body = common(message(envelope=own(attachments=(PDF,))), PROFILE, [b"%PDF"])
    (part,) = body["attachments"]
    assert part == {
        "content": "JVBERg==",
        "type": "application/pdf",
        "filename": "Fatura_ Mart_ 2026.pdf",
        "disposition": "attachment",
    }


@pytest.mark.parametrize(
    ("changes", "files", "reason"),
    [
        ({"content": {"subject": "s", "text": ""}}, [], "without content"),
        ({"envelope": own(attachments=(PDF,))}, [b""], "empty file"),
        ({"envelope": own(attachments=(replace(PDF, content_type="text/x;y"),))}, [b"x"], "media type"),
    ],
)
def test_what_sendgrid_would_refuse_for_all_is_known_before(
    changes: dict[str, Any], files: list[bytes], reason: str
) -> None:
    with pytest.raises(InvalidMailError, match=reason):
        common(message(**changes), PROFILE, files)
