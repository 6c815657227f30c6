"""Messages as SendGrid's v3 body. Pure.

Source: Twilio SendGrid, "Mail Send" (body), "Personalizations", "Mail Send: errors" (what each parameter may hold). A
personalization is a mail of its own; all of a request have content, files and sender in common.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shared.core.address import Mailbox
from shared.core.ports import Attachment, Prepared, SenderProfile
from shared.providers.email.body import check_attachment
from shared.providers.email.header import InvalidMailError, one_line, token, wire_address
from shared.providers.email.mime import own_fields, reply_mailbox, sender_address, wants_no_reply, wire_mailbox

MAX_RECIPIENTS: Final = 1000
"""Of a request, in all of its personalizations."""

_NOT_IN_FILENAMES: Final = str.maketrans(";,", "__")
"""'The filename of your attachment cannot contain CRLF characters', nor these."""


@dataclass(frozen=True, slots=True)
class Personalization:
    """One mail of a request, and whose it is: positions among the request's messages."""

    messages: tuple[int, ...]
    body: dict[str, Any] = field(repr=False)


def batches(batch: Sequence[Prepared]) -> list[Sequence[Prepared]]:
    """Neighbours that can be in one request, at most `MAX_RECIPIENTS`: of one envelope, or each alone but alike."""
    found: list[list[Prepared]] = []
    for message in batch:
        if found and len(found[-1]) < MAX_RECIPIENTS and _go_together(found[-1][0], message):
            found[-1].append(message)
        else:
            found.append([message])
    return [*found]


def _go_together(one: Prepared, other: Prepared) -> bool:
    if one.envelope is not None and one.envelope is other.envelope:
        return True
    return (
        _is_alone(one)
        and _is_alone(other)
        and _sender(one) == _sender(other)
        and wants_no_reply(one) == wants_no_reply(other)
        and one.content["text"] == other.content["text"]
        and one.content.get("html") == other.content.get("html")
    )


def _is_alone(message: Prepared) -> bool:
    """Whether it has neither company nor files, so that only its own header fields are its own."""
    envelope = message.envelope
    return envelope is None or not (envelope.to or envelope.cc or envelope.attachments)


def _sender(message: Prepared) -> SenderProfile | None:
    return None if message.envelope is None else message.envelope.sender


def common(first: Prepared, profile: SenderProfile, files: Sequence[bytes]) -> dict[str, Any]:
    """What all mails of a request share: sender, content, files. InvalidMailError."""
    sender = _sender(first) or profile
    body: dict[str, Any] = {
        "from": _mailbox(sender.from_name, sender_address(sender.from_address)),
        "content": _content(first),
    }
    if sender.reply_to is not None:
        body["reply_to"] = _mailbox(*reply_mailbox(sender.reply_to))
    if wants_no_reply(first):
        body["headers"] = {"Auto-Submitted": "auto-generated"}
    if files and first.envelope is not None:
        attachments = zip(first.envelope.attachments, files, strict=True)
        body["attachments"] = [_attachment(entry, data) for entry, data in attachments]
    return body


Faults = dict[int, InvalidMailError | UnicodeEncodeError]
"""Why messages are in no mail, by their positions."""


def personalizations(messages: Sequence[Prepared], profile: SenderProfile) -> tuple[list[Personalization], Faults]:
    """The mails of a request, and who can have none. InvalidMailError if that is all of one envelope.

    SendGrid sends to whomever a mail shows, so shown are only those of the envelope's To and Cc who are among the
    messages; who is in neither is hidden behind them, or gets a mail that shows nobody else.
    """
    envelope = messages[0].envelope
    if envelope is None or not (envelope.to or envelope.cc):
        return _each_alone(messages, profile)
    addresses = [wire_address(message.address) for message in messages]
    to = _present(envelope.to, addresses)
    cc = [mailbox for mailbox in _present(envelope.cc, addresses) if mailbox not in to]
    if not to:
        to, cc = cc, []
    if not to:
        return _each_alone(messages, profile)
    shown = {address for _, address in (*to, *cc)}
    body = {"to": [_mailbox(*mailbox) for mailbox in to], **_own(messages[0], profile)}
    hidden = [address for address in dict.fromkeys(addresses) if address not in shown]
    if cc:
        body["cc"] = [_mailbox(*mailbox) for mailbox in cc]
    if hidden:
        body["bcc"] = [_mailbox("", address) for address in hidden]
    return [Personalization(tuple(range(len(messages))), body)], {}


def _each_alone(messages: Sequence[Prepared], profile: SenderProfile) -> tuple[list[Personalization], Faults]:
    mails: list[Personalization] = []
    faults: Faults = {}
    for index, message in enumerate(messages):
        try:
            body = {"to": [_mailbox("", wire_address(message.address))], **_own(message, profile)}
        except (InvalidMailError, UnicodeEncodeError) as error:
            faults[index] = error
        else:
            mails.append(Personalization((index,), body))
    return mails, faults


def _present(mailboxes: Sequence[Mailbox], addresses: Sequence[str]) -> list[tuple[str, str]]:
    """Those who are sent to, each once, whatever their display name."""
    there = {address: name for name, address in reversed([wire_mailbox(mailbox) for mailbox in mailboxes])}
    return [(there[address], address) for address in dict.fromkeys(addresses) if address in there]


def _own(message: Prepared, profile: SenderProfile) -> dict[str, Any]:
    """What is one mail's own: its subject, and the fields that it is known by. The reference comes in every event."""
    subject = one_line(message.content["subject"])
    subject.encode()  # UnicodeEncodeError here is one mail's alone, and in the request that of all of them
    if not subject:
        raise InvalidMailError("SendGrid takes none without a subject")
    sender = _sender(message) or profile
    fields = {name: token(name, value) for name, value in own_fields(message, sender.from_address)}
    envelope = message.envelope
    reference = message.key.reference if envelope is None else envelope.message_reference
    return {"subject": subject, "headers": fields, "custom_args": {"reference": reference}}


def _content(message: Prepared) -> list[dict[str, str]]:
    """Text first, then HTML, as SendGrid wants them; an empty one is left out."""
    types = (("text/plain", message.content["text"]), ("text/html", message.content.get("html", "")))
    content = [{"type": type_, "value": value} for type_, value in types if value]
    if not content:
        raise InvalidMailError("SendGrid takes none without content")
    return content


def _attachment(entry: Attachment, data: bytes) -> dict[str, str]:
    check_attachment(entry)
    if not data:
        raise InvalidMailError("SendGrid takes no empty file")
    attachment = {
        "content": base64.b64encode(data).decode("ascii"),
        "type": entry.content_type,
        "filename": one_line(entry.filename).translate(_NOT_IN_FILENAMES),
        "disposition": "attachment" if entry.content_id is None else "inline",
    }
    if entry.content_id is not None:
        attachment["content_id"] = entry.content_id
    return attachment


def _mailbox(name: str, address: str) -> dict[str, str]:
    name = one_line(name)
    return {"email": address, "name": name} if name else {"email": address}
