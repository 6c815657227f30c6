"""What Vonage's SMS API refuses, in its replies' form. Pure.

Sources: Vonage, 'API errors: SMS', 'Troubleshooting SMS' and 'SMS API reference'. Every reply is a 200 with a status
per part; HTTP's own statuses come from what stands before the API.
"""

import re
from collections.abc import Mapping
from typing import Final

MAX_TEXT_CHARACTERS: Final = 3200
MAX_CLIENT_REF: Final = 100

_NUMBER: Final = re.compile(r"[1-9][0-9]{6,14}")
_SENDER: Final = re.compile(r"[0-9]{3,15}|(?=.*[A-Za-z])[A-Za-z0-9 ]{1,11}")
_NUMBERS_ALONE: Final = "1"
"""North America takes no names as senders (Vonage, 'Country-specific features')."""

TEXTS: Final[Mapping[str, str]] = {
    "1": "Throughput Rate Exceeded - please wait [ 250 ] and retry",
    "4": "Bad Credentials",
    "5": "Internal Error",
    "6": "Unroutable message - rejected",
    "7": "Number barred",
    "9": "Quota Exceeded - rejected",
    "15": "Illegal Sender Address - rejected",
    "29": "Non White-listed Destination - rejected",
    "33": "Number De-activated",
}

MAGIC_TO: Final[Mapping[str, str]] = {
    "905000000001": "1",
    "905000000005": "5",
    "905000000006": "6",
    "905000000007": "7",
    "905000000009": "9",
    "905000000029": "29",
    "905000000033": "33",
}
"""Numbers that always get the same status: 90500000 and the status with zeros before it."""


def refusal(form: Mapping[str, str]) -> tuple[str, str] | None:
    """Status and error-text of the first reason to refuse the form, or None."""
    for name in ("from", "to", "text"):
        if not form.get(name):
            return "2", f"Missing {name} param"
    number, invalid = form["to"], _invalid(form)
    if invalid is not None:
        return "3", f"Invalid value for param: {invalid}"
    if len(form["text"]) > MAX_TEXT_CHARACTERS:
        return "12", "Message too long"
    sender = form["from"]
    if not _SENDER.fullmatch(sender) or (number.startswith(_NUMBERS_ALONE) and not sender.isdigit()):
        return "15", TEXTS["15"]
    status = MAGIC_TO.get(number)
    return None if status is None else (status, TEXTS[status])


def _invalid(form: Mapping[str, str]) -> str | None:
    """The first parameter whose value is not valid."""
    checks = {
        "to": _NUMBER.fullmatch(form["to"]) is not None,
        "type": form.get("type", "text") in {"text", "unicode"},
        "ttl": _is_life(form.get("ttl")),
        "client-ref": len(form.get("client-ref", "")) <= MAX_CLIENT_REF,
    }
    return next((name for name, valid in checks.items() if not valid), None)


def _is_life(ttl: str | None) -> bool:
    return ttl is None or (ttl.isdigit() and 20_000 <= int(ttl) <= 604_800_000)
