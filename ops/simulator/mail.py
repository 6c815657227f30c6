"""A mail as its receiver sees it, and what is wrong with it. Pure.

Sources: RFC 5322 sections 2.1.1 (998 bytes a line), 2.3 (CR and LF only together) and 3.6 (required and unique
fields), RFC 2045 (MIME), RFC 6152 and RFC 6531 (what may be 8-bit).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTPUTF8
from typing import Final, overload

REFERENCE_HEADER: Final = "X-Ulak-Reference"
"""Where a mail carries the sender's reference."""

MAX_LINE_BYTES: Final = 998
REQUIRED: Final = ("From", "Date", "Message-ID")
UNIQUE: Final = ("From", "Sender", "Reply-To", "To", "Cc", "Date", "Message-ID", "In-Reply-To", "References", "Subject")

_BARE: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n")


@dataclass(frozen=True, slots=True)
class Mail:
    """headers: decoded, the first of a name; text and html: decoded bodies, None if there is no such part."""

    headers: dict[str, str]
    text: str | None
    html: str | None
    attachments: list[dict[str, object]]
    problems: list[str]

    @property
    def reference(self) -> str | None:
        wanted = REFERENCE_HEADER.lower()
        return next((value for name, value in self.headers.items() if name.lower() == wanted), None)

    def content(self, size: int) -> dict[str, object]:
        """As JSON values for the ledger; size: of the mail in bytes."""
        return {
            "subject": next((value for name, value in self.headers.items() if name.lower() == "subject"), None),
            "headers": self.headers,
            "text": self.text,
            "html": self.html,
            "attachments": self.attachments,
            "bytes": size,
            "problems": self.problems,
        }


def undotted(raw: bytes) -> bytes:
    """The text of a DATA transfer without the dots added for transparency (RFC 5321 section 4.5.2)."""
    return raw.removeprefix(b".").replace(b"\r\n.", b"\r\n")


def read_mail(raw: bytes, *, eight_bit: bool, utf8: bool) -> Mail:
    """Parse a mail; eight_bit and utf8 tell what its envelope announced (BODY=8BITMIME, SMTPUTF8)."""
    problems = list(_wire_problems(raw, eight_bit=eight_bit or utf8))
    headers: dict[str, str] = {}
    text = html = None
    attachments: list[dict[str, object]] = []
    try:
        message = message_from_bytes(raw, _class=EmailMessage, policy=SMTPUTF8)
        for name, value in message.items():
            headers.setdefault(_plain(name), _plain(str(value)))
        problems += _header_problems(message, raw, utf8=utf8)
        text, html = _body(message, "plain"), _body(message, "html")
        attachments = [_attachment(part) for part in _files(message)]
        problems += [f"{type(defect).__name__} in a part" for part in message.walk() for defect in part.defects]
    except Exception as error:  # noqa: BLE001 - the email package raises nearly anything on broken input; it is told
        problems.append(_plain(f"the mail cannot be parsed: {type(error).__name__}: {error}"))
    return Mail(headers, text, html, attachments, problems)


def _wire_problems(raw: bytes, *, eight_bit: bool) -> Iterator[str]:
    if _BARE.search(raw):
        yield "a CR or LF stands alone"
    for number, line in enumerate(raw.split(b"\r\n"), start=1):
        if len(line) > MAX_LINE_BYTES:
            yield f"line {number} has {len(line)} bytes, at most {MAX_LINE_BYTES} are allowed"
    if b"\0" in raw:
        yield "there is a NUL byte"
    if not eight_bit and not raw.isascii():
        yield "there are 8-bit bytes, but MAIL had no BODY=8BITMIME"


def _header_problems(message: EmailMessage, raw: bytes, *, utf8: bool) -> Iterator[str]:
    counts = Counter(name.lower() for name in message)
    yield from (f"{name} is missing" for name in REQUIRED if not counts[name.lower()])
    yield from (f"{name} appears {counts[name.lower()]} times" for name in UNIQUE if counts[name.lower()] > 1)
    if counts["bcc"]:
        yield "Bcc is visible to all recipients"
    if counts["content-type"] and not counts["mime-version"]:
        yield "MIME-Version is missing"
    if not utf8 and not raw.partition(b"\r\n\r\n")[0].isascii():
        yield "a header is not ASCII, but MAIL had no SMTPUTF8"


def _body(message: EmailMessage, kind: str) -> str | None:
    part = message.get_body(preferencelist=(kind,))
    if part is None:
        return None
    content = part.get_content()
    # The parser joins lines with LF; a reader compares with what was written, so line ends are made one kind.
    return _plain(str(content)).replace("\r\n", "\n")


@overload
def _plain(text: str) -> str: ...


@overload
def _plain(text: None) -> None: ...


def _plain(text: str | None) -> str | None:
    """Text without the lone surrogates by which the email package passes on bytes that are no text."""
    return None if text is None else str(text).encode("utf-8", "replace").decode("utf-8")


def _files(message: EmailMessage) -> list[EmailMessage]:
    """Attachments, and what stands inside the HTML, which the library leaves to whoever shows it."""
    if not message.is_multipart():
        return []
    attached = list(message.iter_attachments())
    inside = [part for part in message.walk() if part.get_content_disposition() == "inline" and part["Content-ID"]]
    return attached + [part for part in inside if part not in attached]


def _attachment(part: EmailMessage) -> dict[str, object]:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else part.as_bytes()
    return {
        "name": _plain(part.get_filename()),
        "contentType": _plain(part.get_content_type()),
        "contentId": _plain(part.get("Content-ID")),
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
