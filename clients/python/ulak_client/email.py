"""An e-mail that a service asks for: to whom, with which template, filled with what. Ulak renders and sends it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Literal

from ulak_client.address import check_mailbox
from ulak_client.priority import Priority, check_priority
from ulak_client.storage import check_storage_ref
from ulak_client.text import check_direction, check_text, json_bytes

MAX_RECIPIENTS: Final = 50
MAX_ATTACHMENTS: Final = 20
_FILE_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")
_MEDIA_TYPE: Final = re.compile(
    r"(?!multipart/|message/)[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}"
)
_CONTENT_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
_PROGRAMS: Final = (".bat", ".cmd", ".com", ".exe", ".js", ".jse", ".lnk", ".msi", ".ps1", ".scr", ".vbs")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file by reference (`s3://bucket/key`, `file:folder/name`), read when the mail is sent; ValueError otherwise.

    content_id: shown inside the HTML, which names it as `cid:<content_id>`.
    """

    filename: str = field(repr=False)
    content_type: str
    storage_ref: str = field(repr=False)
    content_id: str | None = None

    def __post_init__(self) -> None:
        if not _FILE_NAME.fullmatch(self.filename):
            raise ValueError("an attachment's filename has 1 to 200 characters, without folders")
        check_direction("an attachment's filename", self.filename)
        if self.filename.lower().endswith(_PROGRAMS):
            raise ValueError("an attachment is a program, which mailbox providers refuse: send a link instead")
        if not _MEDIA_TYPE.fullmatch(self.content_type):
            raise ValueError("an attachment's content_type is a media type like application/pdf")
        check_storage_ref("an attachment's storage_ref", self.storage_ref)
        if self.content_id is not None and not _CONTENT_ID.fullmatch(self.content_id):
            raise ValueError("an attachment's content_id has 1 to 100 letters, digits, dots, hyphens or underscores")

    def body(self) -> dict[str, str]:
        """As rows and the HTTP API hold it."""
        body = {"filename": self.filename, "contentType": self.content_type, "storageRef": self.storage_ref}
        return body if self.content_id is None else {**body, "contentId": self.content_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """One mail. ValueError or TypeError at construction if it cannot be sent; repr shows no address or parameter.

    to, cc, bcc: `name@example.com` or `Name <name@example.com>`, 1 to 50 in all, kept as they are now.
    template: the notification type whose e-mail templates are used; type: the one whose category, time to live and
    sender apply (default: the template's own). parameters fill the template; anything that is JSON.
    priority: None is tx in a database, which does not know the types, and the type's own over HTTP.
    expires_in: not sent after that; None leaves it to the type. model: "A" is sent from this database's table, "B" by
    Ulak's workers, None is the database's own choice.
    """

    to: Sequence[str] = field(repr=False)
    template: str
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    cc: Sequence[str] = field(default=(), repr=False)
    bcc: Sequence[str] = field(default=(), repr=False)
    type: str | None = None
    priority: Priority | None = None
    locale: str | None = None
    user_id: str | None = None
    attachments: Sequence[Attachment] = ()
    expires_in: timedelta | None = None
    model: Literal["A", "B"] | None = None

    def __post_init__(self) -> None:
        self._check_recipients()
        check_text("an e-mail's template", self.template, longest=64)
        if self.type is not None:
            check_text("an e-mail's type", self.type, longest=64)
        if self.user_id is not None:
            check_text("an e-mail's user_id", self.user_id, longest=128)
        if self.locale is not None and (len(self.locale) > 16 or not _LOCALE.fullmatch(self.locale)):
            raise ValueError("an e-mail's locale is one like tr or tr-TR")
        if self.priority is not None:
            check_priority(self.priority)
        if len(self.attachments) > MAX_ATTACHMENTS:
            raise ValueError(f"an e-mail has at most {MAX_ATTACHMENTS} attachments: put the files into one archive")
        if self.expires_in is not None and self.expires_in <= timedelta(0):
            raise ValueError("an e-mail's expires_in is in the past: give a positive duration, or None")
        if self.model not in {None, "A", "B"}:
            raise ValueError("an e-mail's model is A, B or None")
        self.parameters_json()

    def _check_recipients(self) -> None:
        for name in ("to", "cc", "bcc"):
            addresses = getattr(self, name)
            if isinstance(addresses, str) or not isinstance(addresses, Sequence):
                raise TypeError(f"an e-mail's {name} is not a list: give a list of addresses")
            for position, text in enumerate(addresses):
                check_mailbox(f"an e-mail's {name}.{position}", text)
        if not self.to:
            raise ValueError("an e-mail needs an address in to")
        if len(self.to) + len(self.cc) + len(self.bcc) > MAX_RECIPIENTS:
            raise ValueError(f"an e-mail has at most {MAX_RECIPIENTS} recipients: send several")

    def recipients_json(self) -> bytes:
        """The snapshot, as `email_messages.recipients` holds it."""
        everyone = {"to": list(self.to), "cc": list(self.cc), "bcc": list(self.bcc)}
        return json_bytes("an e-mail's recipients", everyone)

    def parameters_json(self) -> bytes:
        """As `email_messages.parameters` holds them."""
        return json_bytes("an e-mail's parameters", self.parameters)
