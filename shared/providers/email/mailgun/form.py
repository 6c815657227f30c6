"""A multipart/form-data body (RFC 7578) of fields whose names and values are ours. Pure."""

from collections.abc import Sequence
from typing import Final

BOUNDARY: Final = "=_ulak-form"
"""In a composed mail, only its own boundaries begin with `--=_` (`shared/providers/email/body.py`): they are others."""
CONTENT_TYPE: Final = f'multipart/form-data; boundary="{BOUNDARY}"'


def form(fields: Sequence[tuple[str, str]], name: str, filename: str, file: bytes) -> bytes:
    """The fields in order, then one file. Values hold neither line ends nor quotes."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n' for field, value in fields
    ]
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        "Content-Type: message/rfc822\r\n\r\n"
    )
    return "".join((*parts, head)).encode() + file + f"\r\n--{BOUNDARY}--\r\n".encode("ascii")
