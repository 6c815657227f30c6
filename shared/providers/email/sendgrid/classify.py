"""What SendGrid meant. Pure.

Sources: Twilio SendGrid, "Mail Send: errors" (statuses, and `errors[].field` that names the parameter at fault), "Rate
limits" (429 with X-RateLimit-Reset, seconds since 1970). A refused request is refused as a whole: nobody of it gets a
mail. SendGrid has no idempotency key: a request that may have been processed and is made again may be a second mail.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import orjson

from shared.core.outcome import (
    Accepted,
    Ambiguous,
    Outcome,
    Permanent,
    ProviderDown,
    Scope,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.providers.retry_after import retry_after_sec

STATUSES: Final[Mapping[int, Outcome]] = {
    401: ProviderDown("401 key refused: check ULAK_SENDGRID_API_KEY and the account's credits"),
    403: ProviderDown("403 forbidden: the key needs mail.send"),
    404: ProviderDown("404 no such resource: check ULAK_SENDGRID_BASE_URL"),
    405: ProviderDown("405 method not allowed: check ULAK_SENDGRID_BASE_URL"),
    413: Permanent("413 message too large"),
    415: Permanent("415 not UTF-8"),
}

_PERSONALIZATION: Final = re.compile(r"personalizations\.(\d{1,4})\.")
_ADDRESS: Final = re.compile(r"personalizations\.\d{1,4}\.(to|cc|bcc)\b")
_NUMBER: Final = re.compile(r"\.\d+\b")


def classify(reply: Reply, now: datetime) -> Outcome:  # noqa: PLR0911  one return per row of the table
    """One reply as one outcome, for all who were in the request. A status that is not listed is Ambiguous.

    200 is the sandbox's: valid, and sent to nobody.
    """
    if reply.status == 202:
        return Accepted(reply.headers.get("x-message-id"))
    if reply.status == 200:
        return ProviderDown("200 sandbox mode: nothing is sent")
    if reply.status == 429:
        return Throttled(Scope.ACCOUNT, "429 too many requests", _wait_sec(reply, now))
    if reply.status == 403 and "from" in _fields(reply):
        return ProviderDown("403 from: the sender needs a verified identity", whole_account=False)
    outcome = STATUSES.get(reply.status)
    if outcome is not None:
        return outcome
    if reply.status == 400:
        fields = _fields(reply)
        names = ", ".join(sorted({_NUMBER.sub("", field) for field in fields}))
        is_address = bool(fields) and all(_ADDRESS.match(field) for field in fields)
        return Permanent(f"400 {names}".rstrip(), dead_letter=not is_address)
    if reply.status >= 500:
        return Transient(f"{reply.status} from SendGrid")
    return Ambiguous(str(reply.status), unrecognised=True)


def refused_personalizations(reply: Reply) -> frozenset[int]:
    """Which of a request's personalizations are at fault; none where the request has another fault as well.

    The others may be sent without them at once, as nothing of this request was processed.
    """
    if reply.status != 400:
        return frozenset()
    matches = [_PERSONALIZATION.match(f"{field}.") for field in _fields(reply)]
    indexes = [int(match[1]) for match in matches if match is not None]
    return frozenset(indexes) if len(indexes) == len(matches) else frozenset()


def _wait_sec(reply: Reply, now: datetime) -> float | None:
    reset = reply.headers.get("x-ratelimit-reset", "")
    if reset.isascii() and reset.isdigit():
        return max(0.0, float(reset) - now.timestamp())
    return retry_after_sec(reply.headers.get("retry-after"), now)


def _fields(reply: Reply) -> Sequence[str]:
    """The parameters at fault, as far as they look like names; '' for an error that names none."""
    try:
        body: Any = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return []
    errors = body.get("errors") if isinstance(body, dict) else None
    fields = [error.get("field") if isinstance(error, dict) else None for error in errors or []]
    return [
        field if isinstance(field, str) and re.fullmatch(r"[A-Za-z0-9_.]{1,100}", field) else "" for field in fields
    ]
