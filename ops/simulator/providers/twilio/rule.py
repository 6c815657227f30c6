"""What Twilio refuses when a message is created. Pure.

Sources (Twilio documentation): 'Messages resource', 'Error and Warning Dictionary' (one page per code),
'Test Credentials' (magic numbers).
"""

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ops.simulator.exchange import Reply, json_reply

MAX_BODY_CHARACTERS: Final = 1600

_E164: Final = re.compile(r"^\+[1-9]\d{6,14}$")
_SHORT_CODE: Final = re.compile(r"^\d{3,8}$")
_ALPHANUMERIC: Final = re.compile(r"^(?=.*[A-Za-z])[A-Za-z0-9 +\-_&]{1,11}$")
_SERVICE_SID: Final = re.compile(r"^MG[0-9a-f]{32}$")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as Twilio's REST API answers it."""

    code: int
    message: str
    status: int = 400

    def reply(self) -> Reply:
        value = {
            "code": self.code,
            "message": self.message,
            "more_info": f"https://www.twilio.com/docs/errors/{self.code}",
            "status": self.status,
        }
        return json_reply(self.status, value)


AUTHENTICATE: Final = Problem(20003, "Authenticate", 401)
TOO_MANY_REQUESTS: Final = Problem(20429, "Too Many Requests", 429)
METHOD_NOT_ALLOWED: Final = Problem(20004, "Method not allowed", 405)
PERMISSION_DENIED: Final = Problem(20403, "Permission denied", 403)
INTERNAL: Final = Problem(20500, "An internal server error has occurred", 500)
UNAVAILABLE: Final = Problem(20503, "Service unavailable", 503)

USUAL: Final[Mapping[int, Problem]] = {
    401: AUTHENTICATE,
    403: PERMISSION_DENIED,
    405: METHOD_NOT_ALLOWED,
    429: TOO_MANY_REQUESTS,
    500: INTERNAL,
    503: UNAVAILABLE,
}


def usual(status: int, path: str) -> Problem:
    """The problem that goes with a programmed status that came without a body."""
    if status == 404:
        return not_found(path)
    return USUAL.get(status) or replace(INTERNAL, status=status)


def not_found(path: str) -> Problem:
    return Problem(20404, f"The requested resource {path} was not found", 404)


def invalid_to(to: str) -> Problem:
    return Problem(21211, f"Invalid 'To' Phone Number: {masked(to)}")


def masked(number: str) -> str:
    """As Twilio quotes a number in messages: all but the last four are X."""
    return "X" * max(len(number) - 4, 0) + number[-4:]


MAGIC_TO: Final[Mapping[str, Problem]] = {
    "+15005550001": invalid_to("+15005550001"),
    "+15005550002": Problem(
        21612, "The 'To' phone number is not currently reachable using the 'From' phone number via SMS"
    ),
    "+15005550003": Problem(21408, "Permission to send an SMS has not been enabled for the region of the 'To' number"),
    "+15005550004": Problem(21610, "Attempt to send to unsubscribed recipient"),
    "+15005550009": Problem(21614, "'To' number is not a valid mobile number"),
}
MAGIC_FROM: Final[Mapping[str, Problem]] = {
    "+15005550001": Problem(21212, "Invalid 'From' Phone Number"),
    "+15005550007": Problem(
        21606, "The 'From' phone number provided is not a valid, message-capable phone number for this destination"
    ),
    "+15005550008": Problem(21611, "This 'From' number has exceeded the maximum number of queued messages", 429),
}


def refusal(form: Mapping[str, str]) -> Problem | None:
    """The first reason to refuse the form of a new message, or None."""
    return _bad_to(form.get("To", "")) or _bad_sender(form) or _bad_body(form) or _bad_callback(form)


def _bad_to(to: str) -> Problem | None:
    if not to:
        return Problem(21604, "A 'To' phone number is required.")
    if not _E164.match(to):
        return invalid_to(to)
    return MAGIC_TO.get(to)


def _bad_sender(form: Mapping[str, str]) -> Problem | None:
    sender, service = form.get("From", ""), form.get("MessagingServiceSid", "")
    if not sender and not service:
        return Problem(21603, "A 'From' phone number is required.")
    if service and not _SERVICE_SID.match(service):
        return Problem(21701, "The Messaging Service does not exist", 404)
    if not sender or _E164.match(sender) or _SHORT_CODE.match(sender) or _ALPHANUMERIC.match(sender):
        return MAGIC_FROM.get(sender)
    return Problem(21212, f"Invalid 'From' Phone Number: {masked(sender)}")


def _bad_body(form: Mapping[str, str]) -> Problem | None:
    body = form.get("Body", "")
    if not body and not form.get("MediaUrl") and not form.get("ContentSid"):
        return Problem(21602, "Message body is required.")
    if len(body) > MAX_BODY_CHARACTERS:
        return Problem(21617, "The concatenated message body exceeds the 1600 character limit.")
    return None


def _bad_callback(form: Mapping[str, str]) -> Problem | None:
    address = form.get("StatusCallback", "")
    if not address:
        return None
    try:
        parts = urllib.parse.urlsplit(address)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    return None if usable else Problem(21609, "The 'StatusCallback' URL is not a valid URL.")
