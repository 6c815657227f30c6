"""A mail's body as one MIME entity (RFC 2045, 2046, 2183, 2387): texts, inline images, files. Pure.

Everything is 7-bit with lines of at most 78 bytes, so that no relay has a reason to change it (E7), which would break
the signature as well.
"""

import binascii
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from shared.core.ports import Attachment
from shared.providers.email.header import InvalidMailError, parameter

_PLAIN: Final = b"\t\r\n" + bytes(range(0x20, 0x7F))
_FROM: Final = re.compile(rb"^From ", re.MULTILINE)
"""Mailboxes in mbox form change such a line to `>From ` (RFC 4155)."""
_LONGEST_LINE: Final = 78
_BASE64_LINE_BYTES: Final = 57
_ASCII: Final = bytes(range(0x80))

_MEDIA_TYPE: Final = re.compile(
    r"(?!multipart/|message/)[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}"
)
_CONTENT_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")

_BOUNDARY_MARK: Final = b"=_"
"""Quoted-printable and base64 never hold it (RFC 2045 section 6.7, note), and text that does is encoded. So no part
can contain a boundary, whoever wrote it, and the same message is the same bytes at every attempt.
"""


def body(content: Mapping[str, str], attachments: Sequence[Attachment], files: Sequence[bytes]) -> bytes:
    """The entity of a message: `text`, `html` beside it if there is one, and the files, read in `files`.

    A file with a content id stands beside the HTML that shows it; without HTML it is an attachment like the others.
    It ends with a line end. InvalidMailError for a file that cannot be put into a mail as it is named.
    """
    entity = _text("plain", content["text"])
    html = content.get("html")
    entities = [(_file(entry, data), html and entry.content_id) for entry, data in zip(attachments, files, strict=True)]
    if html:
        shown = _text("html", html)
        inline = [file for file, is_inline in entities if is_inline]
        if inline:
            shown = _multipart("related", [shown, *inline], ';\r\n type="text/html"')
        entity = _multipart("alternative", [entity, shown])
    attached = [file for file, is_inline in entities if not is_inline]
    if attached:
        entity = _multipart("mixed", [entity, *attached])
    return entity if entity.endswith(b"\r\n") else entity + b"\r\n"


def _text(subtype: str, text: str) -> bytes:
    encoding, encoded = _transfer_encoded(text)
    return _text_head(subtype, encoding) + encoded


@cache
def _text_head(subtype: str, encoding: str) -> bytes:
    head = f"Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode("ascii")


def _transfer_encoded(text: str) -> tuple[str, bytes]:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text.encode().replace(b"\n", b"\r\n")
    if _is_plain(raw):
        return "7bit", raw
    if 6 * len(raw.translate(None, _ASCII)) > len(raw):  # from here on base64 is the shorter one
        return "base64", _base64(raw)
    encoded = binascii.b2a_qp(raw)
    return "quoted-printable", _FROM.sub(b"From=20", encoded) if b"From " in encoded else encoded


def _is_plain(raw: bytes) -> bool:
    """Whether text may go as it is. Blanks at the end of lines do not survive every relay."""
    return (
        not raw.translate(None, _PLAIN)
        and max(map(len, raw.split(b"\r\n"))) <= _LONGEST_LINE
        and b" \r\n" not in raw
        and b"\t\r\n" not in raw
        and not raw.endswith((b" ", b"\t"))
        and (b"From " not in raw or _FROM.search(raw) is None)
        and _BOUNDARY_MARK not in raw
    )


def _file(entry: Attachment, data: bytes) -> bytes:
    check_attachment(entry)
    lines = [f"Content-Type: {entry.content_type}", "Content-Transfer-Encoding: base64"]
    disposition = "attachment"
    if entry.content_id is not None:
        disposition = "inline"
        lines.append(f"Content-ID: <{entry.content_id}>")
    lines.append(f"Content-Disposition: {disposition}")
    head = "\r\n".join(lines).encode("ascii") + parameter("filename", entry.filename)
    return head + b"\r\n\r\n" + _base64(data)


def check_attachment(entry: Attachment) -> None:
    """InvalidMailError for a file that cannot be put into a mail as it is named."""
    if not _MEDIA_TYPE.fullmatch(entry.content_type):
        raise InvalidMailError("an attachment has no media type that a file can have")
    if entry.content_id is not None and not _CONTENT_ID.fullmatch(entry.content_id):
        raise InvalidMailError("an attachment has a content id that is none")


def _base64(data: bytes) -> bytes:
    view = memoryview(data)
    return b"\r\n".join(
        binascii.b2a_base64(view[start : start + _BASE64_LINE_BYTES], newline=False)
        for start in range(0, len(data), _BASE64_LINE_BYTES)
    )


def _multipart(subtype: str, entities: Sequence[bytes], parameters: str = "") -> bytes:
    head, begin, end = _multipart_frame(subtype, parameters)
    return b"".join((head, *(piece for entity in entities for piece in (begin, entity, b"\r\n")), end))


@cache
def _multipart_frame(subtype: str, parameters: str) -> tuple[bytes, bytes, bytes]:
    """What stands before all entities, before each, and after all."""
    boundary = (_BOUNDARY_MARK + subtype.encode("ascii")).decode()
    head = f'Content-Type: multipart/{subtype}{parameters};\r\n boundary="{boundary}"\r\n\r\n'
    return head.encode("ascii"), f"--{boundary}\r\n".encode("ascii"), f"--{boundary}--\r\n".encode("ascii")
