"""A message as a mail: its header, its body, its signature, and the envelope it travels in. Pure: `now` is an argument.

RFC 5322 with display names of RFC 2047, addresses of RFC 6532 where they need it, Auto-Submitted of RFC 3834.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Final

from shared.core.address import InvalidAddressError, Mailbox, parse_mailbox
from shared.core.ports import Prepared, SenderProfile
from shared.providers.email.body import body
from shared.providers.email.header import (
    InvalidMailError,
    mailboxes_field,
    message_id,
    needs_smtputf8,
    text_field,
    token_field,
    wire_address,
)
from shared.providers.email.signature import signature
from shared.wire.channel import MessageClass

REFERENCE_HEADER: Final = "X-Ulak-Reference"


@dataclass(slots=True)  # not frozen, though nobody changes it: one is made for every message
class Mail:
    """What goes on the wire. sender '' is the null return path.

    content is ASCII, or UTF-8 with needs_smtputf8; its lines have at most 998 bytes and end with CRLF, the last one
    too; dots are not doubled.
    """

    sender: str
    recipients: tuple[str, ...] = field(repr=False)
    content: bytes = field(repr=False)
    needs_smtputf8: bool


def build(
    messages: Sequence[Prepared],
    sender: SenderProfile,
    *,
    now: datetime,
    files: Sequence[bytes] = (),
    smtputf8: bool = True,
    signed: bool = True,
) -> Mail:
    """The one mail of deliveries that share an envelope, or of a single one; files are its attachments, read.

    sender speaks where the envelope names none. smtputf8: whether the relay knows it; for one that does not, the header
    shows addresses that need it in a form that every server can read, and the caller leaves out whom they belong to.
    signed: False for a provider that changes signed fields and signs itself.

    The Message-ID comes from the reference, which is the same at every attempt, so that a receiver can drop a double.
    InvalidMailError for what cannot be a mail, InvalidKeyError for a DKIM key that cannot sign.
    """
    first = messages[0]
    envelope = first.envelope
    attachments = () if envelope is None else envelope.attachments
    sender = (envelope and envelope.sender) or sender
    recipients = tuple(wire_address(message.address) for message in messages)
    to, cc = _shown(messages, recipients)
    utf8 = smtputf8 and any(needs_smtputf8(address) for address in (*recipients, *(a for _, a in (*to, *cc))))
    lines = [
        _sender_fields(sender.from_name, sender.from_address, sender.reply_to),
        mailboxes_field("To", to, utf8=utf8) if to else b"To: undisclosed-recipients:;\r\n",
    ]
    if cc:
        lines.append(mailboxes_field("Cc", cc, utf8=utf8))
    lines += (
        text_field("Subject", first.content["subject"]),
        _date_field(now.replace(microsecond=0)),
        *(token_field(name, value) for name, value in own_fields(first, sender.from_address)),
    )
    if wants_no_reply(first):
        lines.append(b"Auto-Submitted: auto-generated\r\n")
    lines += (b"MIME-Version: 1.0\r\n", body(first.content, attachments, files))
    content = b"".join(lines)
    if sender.dkim is not None and signed:
        content = signature(content, sender.dkim, now) + content
    return Mail(_return_path(sender), recipients, content, utf8)


def own_fields(message: Prepared, from_address: str) -> list[tuple[str, str]]:
    """The fields that a mail is known by, and those of one-click unsubscribing (RFC 8058; a signature covers both).

    InvalidMailError for a reference that cannot stand in them.
    """
    envelope = message.envelope
    reference = message.key.reference if envelope is None else envelope.message_reference
    fields = [
        ("Message-ID", message_id(reference, from_address.rpartition("@")[2])),
        (REFERENCE_HEADER, reference),
    ]
    if envelope is not None and envelope.unsubscribe_url is not None:
        fields += (
            ("List-Unsubscribe", f"<{envelope.unsubscribe_url}>"),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        )
    return fields


def wants_no_reply(message: Prepared) -> bool:
    """Whether out-of-office replies make no sense: Auto-Submitted (RFC 3834)."""
    return message.message_class <= MessageClass.TX


Shown = Sequence[tuple[str, str]]
"""Mailboxes of a field: display name and wire address."""


def _shown(messages: Sequence[Prepared], recipients: Sequence[str]) -> tuple[Shown, Shown]:
    """What To and Cc say: the envelope's mailboxes, whoever this attempt still goes to. Nobody in Bcc is ever shown."""
    envelope = messages[0].envelope
    if envelope is not None and (envelope.to or envelope.cc):
        return [wire_mailbox(entry) for entry in envelope.to], [wire_mailbox(entry) for entry in envelope.cc]
    return ([("", recipients[0])] if len(recipients) == 1 else []), ()


def wire_mailbox(mailbox: Mailbox) -> tuple[str, str]:
    """Its display name, and its address as it travels; InvalidMailError."""
    return mailbox.name, wire_address(mailbox.address.text)


@lru_cache(maxsize=2)
def _date_field(now: datetime) -> bytes:
    """The same for all mails of a second."""
    return token_field("Date", format_datetime(now))


@lru_cache(maxsize=256)
def _sender_fields(from_name: str, from_address: str, reply_to: str | None) -> bytes:
    """From and Reply-To, the same for many mails."""
    fields = mailboxes_field("From", [(from_name, sender_address(from_address))])
    if reply_to is None:
        return fields
    return fields + mailboxes_field("Reply-To", [reply_mailbox(reply_to)])


def reply_mailbox(reply_to: str) -> tuple[str, str]:
    """A sender's Reply-To as display name and wire address; InvalidMailError."""
    try:
        mailbox = parse_mailbox(reply_to)
    except InvalidAddressError as error:
        raise InvalidMailError(f"Reply-To: {error}") from error
    return mailbox.name, sender_address(mailbox.address.text)


def _return_path(sender: SenderProfile) -> str:
    path = sender.from_address if sender.return_path is None else sender.return_path
    return path and sender_address(path)


def sender_address(address: str) -> str:
    """A sender's address as it travels; InvalidMailError for one that not every server on the way can read."""
    address = wire_address(address)
    if needs_smtputf8(address):
        raise InvalidMailError("a sender's address has other than ASCII letters before the @")
    return address
