"""What Amazon SES refuses. Pure.

Sources: Amazon SES API v2 Reference, "SendEmail" (errors, `Destination`), "Common Errors"; SES Developer Guide,
"Service quotas in Amazon SES" (50 recipients, 40 MB); AWS restJson1 protocol (`x-amzn-ErrorType`).
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ops.simulator.exchange import Reply, json_reply
from ops.simulator.mail import Mail

MAX_RECIPIENTS: Final = 50
MAX_BYTES: Final = 40 * 1024 * 1024
UNVERIFIED: Final = "unverified-"
"""A From whose local part begins so belongs to nobody, as far as SES knows."""

_ADDRESS: Final = re.compile(r"(?:[^<>]*<)?([\x21-\x7e]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,})>?")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as SES's API v2 answers it."""

    type: str
    message: str
    status: int = 400

    def reply(self) -> Reply:
        return json_reply(self.status, {"message": self.message}, ("x-amzn-errortype", self.type))


SIGNATURE: Final = {
    "MissingAuthenticationToken": Problem("MissingAuthenticationTokenException", "Missing Authentication Token", 403),
    "IncompleteSignature": Problem("IncompleteSignature", "Authorization header is not complete", 403),
    "UnrecognizedClientException": Problem(
        "UnrecognizedClientException", "The security token included in the request is invalid.", 403
    ),
    "RequestExpired": Problem("RequestExpired", "Signature expired", 403),
    "SignatureDoesNotMatch": Problem(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided.",
        403,
    ),
}
UNKNOWN_OPERATION: Final = Problem("UnknownOperationException", "The requested operation does not exist.", 404)
_USUAL: Final = {
    403: Problem("AccessDeniedException", "User is not authorized to perform: ses:SendEmail", 403),
    404: Problem("NotFoundException", "Configuration set does not exist.", 404),
    429: Problem("TooManyRequestsException", "Maximum sending rate exceeded.", 429),
    500: Problem("InternalFailure", "An internal error occurred.", 500),
    503: Problem("ServiceUnavailable", "Service is unavailable.", 503),
}


def usual(status: int) -> Problem:
    """The problem that goes with a programmed status that came without a body."""
    return _USUAL.get(status) or Problem("BadRequestException" if status < 500 else "InternalFailure", "no", status)


def raw_of(body: Mapping[str, Any]) -> bytes | None:
    """The raw mail of a request, None where there is none that base64 can read."""
    content = body.get("Content")
    raw = content.get("Raw") if isinstance(content, dict) else None
    data = raw.get("Data") if isinstance(raw, dict) else None
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except (binascii.Error, ValueError):
        return None


def recipients_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """All addresses of the destination."""
    destination = body.get("Destination")
    lists = destination.values() if isinstance(destination, dict) else ()
    return tuple(str(entry) for addresses in lists if isinstance(addresses, list) for entry in addresses)


def refusal(body: Mapping[str, Any], raw: bytes | None, mail: Mail | None) -> Problem | None:
    """The first reason to refuse a signed request, or None."""
    if raw is None or mail is None:
        return Problem("BadRequestException", "Content.Raw.Data is required.")
    if len(raw) > MAX_BYTES:
        return Problem("MessageRejected", f"Message length is more than {MAX_BYTES} bytes long")
    if mail.headers.get("From", "").rpartition("<")[2].startswith(UNVERIFIED):
        return Problem("MessageRejected", "Email address is not verified.")
    fault = _destination_fault(recipients_of(body)) or next(iter(mail.problems), None)
    return None if fault is None else Problem("BadRequestException", fault)


def _destination_fault(recipients: Sequence[str]) -> str | None:
    if not recipients:
        return "Destination is required."
    if len(recipients) > MAX_RECIPIENTS:
        return f"Recipient count exceeds {MAX_RECIPIENTS}."
    if not all(_ADDRESS.fullmatch(recipient) for recipient in recipients):
        return "Local address contains control or whitespace, or is not ASCII"
    return None
