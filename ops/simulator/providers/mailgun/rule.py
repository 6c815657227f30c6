"""What Mailgun refuses. Pure.

Sources: Mailgun, "Sending messages, HTTP" (25 MB, 1,000 recipients, "parameter is not a valid address"), "API overview"
(statuses). A refused key is answered as plain text, all else as JSON with `message`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import HTTP
from typing import Final

from ops.simulator.exchange import Reply, Request, json_reply

MAX_RECIPIENTS: Final = 1000
MAX_BYTES: Final = 25 * 1024 * 1024

_ADDRESS: Final = re.compile(r"[\x21-\x7e]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")
FORBIDDEN: Final = Reply(401, (("content-type", "text/plain"),), b"Forbidden")


@dataclass(frozen=True, slots=True)
class Problem:
    """A refusal as Mailgun answers it."""

    message: str
    status: int = 400

    def reply(self) -> Reply:
        return json_reply(self.status, {"message": self.message})


NO_DOMAIN: Final = Problem("Domain not found: check the name and the region", 404)
_USUAL: Final = {
    402: Problem("Payment required", 402),
    403: Problem("Domain is not allowed to send: please activate your account", 403),
    404: NO_DOMAIN,
    429: Problem("Too many requests, please try again later", 429),
    500: Problem("Internal Server Error", 500),
}


def usual(status: int) -> Reply:
    """The reply that goes with a programmed status that came without a body."""
    if status == 401:
        return FORBIDDEN
    return (_USUAL.get(status) or Problem("refused", status)).reply()


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a call in order, and its file `message`, None if there is none."""

    fields: Sequence[tuple[str, str]]
    message: bytes | None

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for field, value in self.fields if field == name)


def read_form(request: Request) -> Form:
    """A multipart/form-data body (RFC 7578); without fields for anything else.

    The file is cut out between its boundaries: a parser of mails would change line ends.
    """
    kind = request.header("content-type") or ""
    if not kind.lower().startswith("multipart/form-data"):
        return Form((), None)
    head = BytesParser(_class=EmailMessage, policy=HTTP).parsebytes(f"content-type: {kind}\r\n\r\n".encode())
    boundary = f"--{head.get_boundary('')}".encode()
    fields: list[tuple[str, str]] = []
    message = None
    for part in (b"\r\n" + request.body).split(b"\r\n" + boundary)[1:]:
        lines, found, value = part.partition(b"\r\n\r\n")
        if not found:
            continue
        described = BytesParser(_class=EmailMessage, policy=HTTP).parsebytes(lines.lstrip() + b"\r\n\r\n")
        name = str(described.get_param("name", "", header="content-disposition"))
        if name == "message":
            message = value if described.get_filename() else None
        else:
            fields.append((name, value.decode("utf-8", errors="replace")))
    return Form(fields, message)


def refusal(form: Form) -> Problem | None:
    """The first reason to refuse a form, or None."""
    to = form.all("to")
    if not to:
        return Problem("to parameter is missing")
    if len(to) > MAX_RECIPIENTS:
        return Problem(f"Too many recipients; max is {MAX_RECIPIENTS}")
    if not all(_ADDRESS.fullmatch(address) for address in to):
        return Problem("'to' parameter is not a valid address. please check documentation")
    if form.message is None:
        return Problem("message parameter is missing")
    if len(form.message) > MAX_BYTES:
        return Problem("Message is too large", 413)
    return None
