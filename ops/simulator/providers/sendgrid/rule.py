"""What SendGrid refuses. Pure.

Source: Twilio SendGrid, "Mail Send: errors" (fields and messages), "Mail Send: limitations" (1,000 recipients, 30 MB).
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ops.simulator.exchange import Reply, json_reply

MAX_RECIPIENTS: Final = 1000
MAX_BYTES: Final = 30 * 1024 * 1024
RESERVED: Final = frozenset(
    {
        *("x-sg-id", "x-sg-eid", "received", "dkim-signature", "content-type", "content-transfer-encoding"),
        *("to", "from", "subject", "reply-to", "cc", "bcc"),
    }
)
UNVERIFIED: Final = "unverified-"
"""A From whose local part begins so belongs to nobody, as far as SendGrid knows."""

_ADDRESS: Final = re.compile(r"[\x21-\x7e]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")
_BREAKS: Final = re.compile(r"[;,\r\n]")
_HELP: Final = "http://sendgrid.com/docs/API_Reference/Web_API_v3/Mail/errors.html"


@dataclass(frozen=True, slots=True)
class Problem:
    """One of the errors in a refusal."""

    message: str
    field: str | None = None


def refused(status: int, *problems: Problem) -> Reply:
    """A refusal as SendGrid answers it."""
    errors = [{"message": entry.message, "field": entry.field, "help": _HELP} for entry in problems]
    return json_reply(status, {"errors": errors})


_USUAL: Final = {
    401: "The provided authorization grant is invalid, expired, or revoked",
    403: "access forbidden",
    413: "Payload too large",
    429: "too many requests",
}


UNVERIFIED_SENDER: Final = refused(403, Problem("The from address does not match a verified Sender Identity.", "from"))


def usual(status: int) -> Reply:
    """The reply that goes with a programmed status that came without a body."""
    return refused(status, Problem(_USUAL.get(status, "Internal server error" if status >= 500 else "Bad Request")))


def recipients_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """All addresses of all personalizations."""
    return tuple(
        str(mailbox.get("email"))
        for personalization in dicts(body.get("personalizations"))
        for kind in ("to", "cc", "bcc")
        for mailbox in dicts(personalization.get(kind))
    )


def problems(body: Mapping[str, Any]) -> list[Problem]:
    """All reasons to refuse a body, in its order."""
    return [*_personalizations(body), *_sender(body), *_content(body), *_attachments(body)]


def _personalizations(body: Mapping[str, Any]) -> Iterator[Problem]:
    personalizations = dicts(body.get("personalizations"))
    if not personalizations:
        yield Problem("You must have at least one personalization.", "personalizations")
    if len(recipients_of(body)) > MAX_RECIPIENTS:
        yield Problem("There is a limit of 1000 total recipients (to + cc + bcc) per request.", "personalizations")
    for index, entry in enumerate(personalizations):
        place = f"personalizations.{index}"
        yield from _recipients(entry, place)
        if not (entry.get("subject") or body.get("subject")):
            yield Problem("The subject is required.", f"{place}.subject")
        yield from _headers(entry.get("headers"), f"{place}.headers")
        arguments = entry.get("custom_args", {})
        if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
            yield Problem("All values of custom arguments object must be strings", f"{place}.custom_args")
    yield from _headers(body.get("headers"), "headers")


def _recipients(entry: Mapping[str, Any], place: str) -> Iterator[Problem]:
    if not dicts(entry.get("to")):
        yield Problem("The to parameter is required for all personalization objects.", f"{place}.to")
    seen: set[str] = set()
    for kind in ("to", "cc", "bcc"):
        for number, mailbox in enumerate(dicts(entry.get(kind))):
            address = str(mailbox.get("email"))
            if not _ADDRESS.fullmatch(address):
                yield Problem("Does not contain a valid address.", f"{place}.{kind}.{number}.email")
            if address.lower() in seen:
                message = "Each email address in the personalization block should be unique between to, cc, and bcc."
                yield Problem(message, place)
            seen.add(address.lower())


def _headers(headers: object, place: str) -> Iterator[Problem]:
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if name.lower() in RESERVED:
            yield Problem("Header cannot be one of the reserved keys.", place)
        if not isinstance(value, str) or "\r" in value or "\n" in value:
            yield Problem("All values of the headers object must be strings.", place)
        if not name.isascii() or " " in name:
            yield Problem("Header keys cannot contain non-ASCII characters or empty spaces.", place)


def _sender(body: Mapping[str, Any]) -> Iterator[Problem]:
    for name in ("from", "reply_to"):
        mailbox = body.get(name)
        if mailbox is None and name == "reply_to":
            continue
        if not isinstance(mailbox, dict) or not _ADDRESS.fullmatch(str(mailbox.get("email"))):
            yield Problem(f"The {name} object must have a valid email address.", f"{name}.email")


def _content(body: Mapping[str, Any]) -> Iterator[Problem]:
    types = [str(part.get("type")) for part in dicts(body.get("content"))]
    if not types:
        yield Problem("There must be at least one defined content block.", "content")
    if "text/plain" in types[1:]:
        yield Problem("text/plain needs to be first, followed by text/html.", "content")
    for index, part in enumerate(dicts(body.get("content"))):
        if not part.get("value"):
            yield Problem("The content value must be a string at least one character in length.", f"content.{index}")


def _attachments(body: Mapping[str, Any]) -> Iterator[Problem]:
    for index, part in enumerate(dicts(body.get("attachments"))):
        place = f"attachments.{index}"
        if not attached(part):
            yield Problem("The attachment content must be base64 encoded.", f"{place}.content")
        for name in ("filename", "type", "content_id"):
            if _BREAKS.search(str(part.get(name, ""))):
                yield Problem(f"The {name} cannot contain ';', ',' or CRLF characters.", f"{place}.{name}")


def attached(part: Mapping[str, Any]) -> bytes:
    """The bytes of an attachment; none where they cannot be read."""
    try:
        return base64.b64decode(str(part.get("content", "")), validate=True)
    except binascii.Error:
        return b""


def dicts(value: object) -> list[dict[str, Any]]:
    """The objects in a list; none where there is no list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
