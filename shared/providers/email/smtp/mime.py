"""A message as MIME (RFC 5322, 2045-2049) with its envelope. Pure but for nothing: `now` is an argument."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import format_datetime
from typing import Final

from shared.core.ports import Prepared
from shared.wire.channel import MessageClass

REFERENCE_HEADER: Final = "X-Ulak-Reference"
_WHITE_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Mail:
    """What goes on the wire. content has CRLF line ends, lines of at most 998 bytes, and is not dot-stuffed."""

    sender: str
    recipient: str = field(repr=False)
    content: bytes = field(repr=False)
    needs_smtputf8: bool


def build(message: Prepared, *, from_address: str, from_name: str, now: datetime) -> Mail:
    """The mail of one delivery; ValueError for what cannot be a mail.

    The domain goes as A-label, so that only a non-ASCII local part needs SMTPUTF8 (E2). Text that is not plain short
    ASCII lines is transfer-encoded, so no line is too long and none changes on the way (E7). The Message-ID is made
    from the reference: the same for every attempt, so that a receiver can drop a double.
    """
    local, _, domain = message.address.rpartition("@")
    recipient = message.address if domain.isascii() else f"{local}@{domain.encode('idna').decode()}"
    needs_smtputf8 = not local.isascii()
    mail = EmailMessage(policy=SMTPUTF8 if needs_smtputf8 else SMTP)
    mail["From"] = Address(from_name, addr_spec=from_address)
    mail["To"] = recipient
    mail["Subject"] = _WHITE_SPACE.sub(" ", message.content["subject"]).strip()
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message.key.reference}@{from_address.rpartition('@')[2]}>"
    mail[REFERENCE_HEADER] = message.key.reference
    if message.message_class <= MessageClass.TX:
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office replies, please
    mail.set_content(message.content["text"])
    html = message.content.get("html")
    if html:
        mail.add_alternative(html, subtype="html")
    return Mail(from_address, recipient, mail.as_bytes(), needs_smtputf8)
