"""What FCM meant. Pure.

Sources: Firebase, "FCM Error Codes" (REST `ErrorCode`, and 60 s as the default wait after QUOTA_EXCEEDED), and Google's
API error model for what answers before FCM does.
"""

from collections.abc import Mapping
from dataclasses import replace
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
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.providers.retry_after import retry_after_sec

DEFAULT_QUOTA_WAIT_SEC: Final = 60.0

ERROR_CODES: Final[Mapping[str, Outcome]] = {
    "UNREGISTERED": TargetGone("UNREGISTERED"),
    "INVALID_ARGUMENT": Permanent("INVALID_ARGUMENT"),  # the payload is at fault, the token stays (P8)
    "SENDER_ID_MISMATCH": Permanent("SENDER_ID_MISMATCH: the token belongs to another Firebase project"),
    "QUOTA_EXCEEDED": Throttled(Scope.ACCOUNT, "QUOTA_EXCEEDED", DEFAULT_QUOTA_WAIT_SEC),
    "UNAVAILABLE": Transient("UNAVAILABLE"),
    "INTERNAL": Transient("INTERNAL"),
    "THIRD_PARTY_AUTH_ERROR": ProviderDown("THIRD_PARTY_AUTH_ERROR: check the Web Push key of the project"),
}


def classify(reply: Reply, now: datetime) -> Outcome:  # noqa: PLR0911  one return per row of the table
    """One reply as one outcome. A code that is not listed is Ambiguous."""
    body = _body(reply)
    if reply.status == 200:
        name = body.get("name")
        return Accepted(name if isinstance(name, str) else None)
    code = error_code(body)
    outcome = ERROR_CODES.get(code or "")
    if reply.status == 429 or isinstance(outcome, Throttled):
        wait_sec = retry_after_sec(reply.headers.get("retry-after"), now)
        throttled = ERROR_CODES["QUOTA_EXCEEDED"]
        assert isinstance(throttled, Throttled)
        return throttled if wait_sec is None else replace(throttled, retry_after_sec=wait_sec)
    if outcome is not None:
        return outcome
    if reply.status in {401, 403, 404}:
        # No FCM code: Google's front refused the credentials, or the project is not there.
        return ProviderDown(f"{reply.status} {_status(body)}")
    if reply.status == 400:
        return Permanent(f"400 {_status(body)}")
    if reply.status >= 500:
        return Transient(f"{reply.status} {_status(body)}")
    return Ambiguous(f"{reply.status} {code}", unrecognised=True)


def error_code(body: Mapping[str, Any]) -> str | None:
    """FCM's own code among the error's details, None where FCM never saw the request."""
    error = body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else []:
        code = detail.get("errorCode") if isinstance(detail, dict) else None
        if isinstance(code, str):
            return code
    return None


def _status(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    return str(error.get("status")) if isinstance(error, dict) else "without a body"


def _body(reply: Reply) -> Mapping[str, Any]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
