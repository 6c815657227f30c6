"""An e-mail request as it is stored: recipients, template, parameters, attachments by reference (seed 000 section 3).

Nothing is rendered here. The same value stands behind `ulak.enqueue_email`, `ulak_client` and `POST /emails`, and is
checked the same way wherever it enters.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import orjson

from shared.core.address import InvalidAddressError, Mailbox, parse_mailbox
from shared.core.direction import turning_in
from shared.core.storage import InvalidRefError, StorageRef

MAX_RECIPIENTS: Final = 50
MAX_ATTACHMENTS: Final = 20
MAX_REFERENCE: Final = 1024
"""Characters of a storage reference."""
_FILE_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_CONTENT_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")

REFUSED_FILES: Final = frozenset(
    {".bat", ".cmd", ".com", ".exe", ".js", ".jse", ".lnk", ".msi", ".ps1", ".scr", ".vbs"}
)
"""Programs: large mailbox providers refuse them, and the mail with them (Gmail Help, "File types blocked in Gmail")."""


class InvalidEmailError(ValueError):
    """A request that can never be sent as it is. path names the field, the message the remedy; neither an address."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}")
        self.path = path
        self.detail = detail


class Field(StrEnum):
    """Which header a recipient stands in. BCC stands in none."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


@dataclass(frozen=True, slots=True)
class Recipient:
    """One mailbox and the field it was given in."""

    field: Field
    mailbox: Mailbox


@dataclass(frozen=True, slots=True)
class AttachmentRef:
    """A file by reference. content_id: shown inside the HTML, which names it as `cid:<content_id>`."""

    filename: str = field(repr=False)
    content_type: str
    storage_ref: str = field(repr=False)
    content_id: str | None = None


@dataclass(frozen=True, slots=True)
class EmailRequest:
    """Checked; repr shows no address and no parameter.

    recipients: to, cc, bcc in that order, each address once (by its canonical form), the first mention counts; the
    position in it is how a recipient is known for the life of the message. type None: the template's own.
    """

    recipients: tuple[Recipient, ...] = field(repr=False)
    template: str
    parameters: Mapping[str, Any] = field(repr=False)
    type: str | None = None
    locale: str | None = None
    user_id: str | None = None
    attachments: tuple[AttachmentRef, ...] = ()

    @property
    def type_name(self) -> str:
        """The type whose category, class and time to live apply."""
        return self.template if self.type is None else self.type

    def headed(self, header: Field) -> tuple[Mailbox, ...]:
        """The mailboxes of one field, as they are shown to every reader."""
        return tuple(recipient.mailbox for recipient in self.recipients if recipient.field is header)


def parse_recipients(to: Sequence[str], cc: Sequence[str] = (), bcc: Sequence[str] = ()) -> tuple[Recipient, ...]:
    """Recipients of an e-mail; InvalidEmailError names the field and position, `to.1`."""
    found: dict[str, Recipient] = {}
    for header, texts in ((Field.TO, to), (Field.CC, cc), (Field.BCC, bcc)):
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise InvalidEmailError(header, "give a list of addresses")
        for position, text in enumerate(texts):
            if not isinstance(text, str):
                raise InvalidEmailError(f"{header}.{position}", "give an address as text")
            try:
                mailbox = parse_mailbox(text)
            except InvalidAddressError as error:
                raise InvalidEmailError(f"{header}.{position}", str(error)) from error
            found.setdefault(mailbox.address.canonical, Recipient(header, mailbox))
    if not to:
        raise InvalidEmailError("to", "give at least one address")
    if len(found) > MAX_RECIPIENTS:
        raise InvalidEmailError("to", f"an e-mail has at most {MAX_RECIPIENTS} recipients: send several")
    return tuple(found.values())


def parse_attachments(entries: Sequence[Any]) -> tuple[AttachmentRef, ...]:
    """Attachments as callers write them: `{filename, contentType, storageRef, contentId?}`; InvalidEmailError.

    Whether a reference can be read is found out when the mail is sent; here only its form is looked at.
    """
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise InvalidEmailError("attachments", "give a list of {filename, contentType, storageRef}")
    if len(entries) > MAX_ATTACHMENTS:
        raise InvalidEmailError("attachments", f"at most {MAX_ATTACHMENTS}: put the files into one archive")
    return tuple(_attachment(entry, f"attachments.{position}") for position, entry in enumerate(entries))


def _attachment(entry: Any, path: str) -> AttachmentRef:
    if not isinstance(entry, Mapping):
        raise InvalidEmailError(path, "give {filename, contentType, storageRef}")
    known = {"filename", "contentType", "storageRef", "contentId"}
    for name in entry:
        if name not in known:
            raise InvalidEmailError(
                f"{path}.{name}", "there is no such field: use filename, contentType, storageRef, contentId"
            )
    filename, content_type = entry.get("filename"), entry.get("contentType")
    storage_ref, content_id = entry.get("storageRef"), entry.get("contentId")
    if not isinstance(filename, str) or not _FILE_NAME.fullmatch(filename):
        raise InvalidEmailError(f"{path}.filename", "give a file name of 1 to 200 characters, without folders")
    if (turning := turning_in(filename)) is not None:
        raise InvalidEmailError(
            f"{path}.filename",
            f"{turning} turns the text around it over, so that a program can look like a document: leave it out",
        )
    if any(filename.lower().endswith(ending) for ending in REFUSED_FILES):
        raise InvalidEmailError(f"{path}.filename", "programs are refused by mailbox providers: send a link instead")
    if not isinstance(content_type, str) or not _MEDIA_TYPE.fullmatch(content_type):
        raise InvalidEmailError(f"{path}.contentType", "give a media type like application/pdf")
    if content_type.startswith(("multipart/", "message/")):
        raise InvalidEmailError(
            f"{path}.contentType", "a file is neither multipart/ nor message/: use application/octet-stream"
        )
    _check_reference(f"{path}.storageRef", storage_ref)
    if content_id is not None and (not isinstance(content_id, str) or not _CONTENT_ID.fullmatch(content_id)):
        raise InvalidEmailError(f"{path}.contentId", "give 1 to 100 letters, digits, dots, hyphens or underscores")
    return AttachmentRef(filename, content_type, str(storage_ref), content_id)


def _check_reference(path: str, text: Any) -> None:
    if not isinstance(text, str) or not 0 < len(text) <= MAX_REFERENCE or not text.isprintable():
        raise InvalidEmailError(path, "give a reference like s3://bucket/key or file:folder/name")
    try:
        StorageRef.parse(text)
    except InvalidRefError as error:
        raise InvalidEmailError(path, str(error)) from error


def recipients_json(recipients: Sequence[Recipient]) -> bytes:
    """`{"to": [...], "cc": [...], "bcc": [...]}`, as `email_messages.recipients` holds it."""
    return orjson.dumps(
        {header.value: [str(entry.mailbox) for entry in recipients if entry.field is header] for header in Field}
    )


def recipients_from_json(text: bytes) -> tuple[Recipient, ...]:
    """Inverse; InvalidEmailError for anything else."""
    try:
        found = orjson.loads(text)
        return parse_recipients(found.get("to") or (), found.get("cc") or (), found.get("bcc") or ())
    except (AttributeError, orjson.JSONDecodeError) as error:
        raise InvalidEmailError("recipients", 'is not JSON like {"to": [...]}') from error


def attachments_json(attachments: Sequence[AttachmentRef]) -> list[dict[str, str]]:
    """As callers write them, and as rows hold them."""
    return [
        {"filename": entry.filename, "contentType": entry.content_type, "storageRef": entry.storage_ref}
        | ({} if entry.content_id is None else {"contentId": entry.content_id})
        for entry in attachments
    ]


def request_json(request: EmailRequest) -> bytes:
    """The whole request as the ledger seals it (`contents`, purpose email-v1)."""
    return orjson.dumps(
        {
            "recipients": orjson.loads(recipients_json(request.recipients)),
            "template": request.template,
            "type": request.type,
            "locale": request.locale,
            "userId": request.user_id,
            "parameters": request.parameters,
            "attachments": attachments_json(request.attachments),
        }
    )


def request_from_json(text: bytes) -> EmailRequest:
    """Inverse of `request_json`; InvalidEmailError for anything else."""
    try:
        found = orjson.loads(text)
        recipients = found["recipients"]
        return EmailRequest(
            recipients=parse_recipients(recipients["to"], recipients["cc"], recipients["bcc"]),
            template=found["template"],
            parameters=found["parameters"],
            type=found["type"],
            locale=found["locale"],
            user_id=found["userId"],
            attachments=parse_attachments(found["attachments"]),
        )
    except (KeyError, TypeError, orjson.JSONDecodeError) as error:
        raise InvalidEmailError("request", "what was sealed is not an e-mail request") from error
