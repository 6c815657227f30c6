"""What Mailgun meant. Pure.

Source: Mailgun, "API overview" and "API response codes" (400 a JSON message for humans; 401 and 403 the key; 404 the
domain or the region; 429 retry as the reply says; 500 retry), "Sending messages, HTTP" (the message below).
Mailgun has no idempotency key: a request that may have been processed and is made again may be a second mail.
"""

from collections.abc import Mapping
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
    401: ProviderDown("401 key refused: check ULAK_MAILGUN_API_KEY"),
    402: ProviderDown("402 the account's plan does not allow it"),
    403: ProviderDown("403 access denied: check the key's rights and the domain's state"),
    404: ProviderDown("404 no such domain: check ULAK_MAILGUN_DOMAIN and ULAK_MAILGUN_REGION"),
    413: Permanent("413 message too large"),
}

_NOT_AN_ADDRESS: Final = "is not a valid address"
"""Of `to`: "'to' parameter is not a valid address. please check documentation"."""


def classify(reply: Reply, now: datetime) -> Outcome:  # noqa: PLR0911  one return per row of the table
    """One reply as one outcome, for all recipients of the mail. A status that is not listed is Ambiguous."""
    body = _body(reply)
    if 200 <= reply.status < 300:
        message_id = body.get("id")
        return Accepted(message_id.strip("<>") if isinstance(message_id, str) else None)
    if reply.status == 429:
        return Throttled(Scope.ACCOUNT, "429 too many requests", retry_after_sec(reply.headers.get("retry-after"), now))
    outcome = STATUSES.get(reply.status)
    if outcome is not None:
        return outcome
    if reply.status == 400:
        message = body.get("message")
        if isinstance(message, str) and _NOT_AN_ADDRESS in message:
            return Permanent("400 not a valid address", dead_letter=False)
        return Permanent("400 request refused")
    if reply.status >= 500:
        return Transient(f"{reply.status} from Mailgun")
    return Ambiguous(str(reply.status), unrecognised=True)


def _body(reply: Reply) -> Mapping[str, Any]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
