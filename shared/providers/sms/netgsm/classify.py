"""What Netgsm meant. Pure.

Sources: Netgsm, "SMS API: REST v2, SMS gönderimi" (netgsm.com.tr/dokuman), and its own clients, which carry the table
of codes (github.com/netgsm/netgsm-sms-python, `exceptions/api_exception.py`; netgsm-sms-js, `openapi.json`: refusals
come with HTTP 406). A refusal created no task. Unlisted codes are Ambiguous.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

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

TAKEN: Final = frozenset({"00", "01", "02"})
"""01 and 02: taken, a date being corrected; we send none."""

REPEATS_WAIT_SEC: Final = 60.0
"""85 counts tasks for one number within a minute."""

CODES: Final[Mapping[str, Outcome]] = {
    "20": Permanent("20 text refused, or too long"),
    "30": ProviderDown("30 user, password or API access refused; or the address is not on the account's list"),
    "40": ProviderDown("40 sender header not defined in the account", whole_account=False),
    # Of marketing alone, so that the account's other messages must not suffer from them.
    "50": Permanent("50 the account may not send messages under İYS control"),
    "51": Permanent("51 the account has no İYS brand"),
    "70": Permanent("70 a parameter is wrong or missing"),
    "80": Throttled(Scope.ACCOUNT, "80 sending limit exceeded"),
    "85": Throttled(Scope.TARGET, "85 over 20 tasks a minute for this number", REPEATS_WAIT_SEC),
    "100": Transient("100 system error"),
    "101": Transient("101 system error"),
}


def classify(reply: Reply, now: datetime) -> Outcome:
    """One reply as one outcome. A 5xx says nothing about whether a task was created."""
    body = _body(reply)
    code = str(body.get("code", ""))
    if reply.status == 200 and code in TAKEN:
        job_id = body.get("jobid")
        return Accepted(str(job_id) if job_id else None)
    if reply.status == 429:
        return Throttled(Scope.ACCOUNT, "429 too many requests", retry_after_sec(reply.headers.get("retry-after"), now))
    if code in CODES:
        return CODES[code]
    if reply.status in {401, 403}:
        return ProviderDown(f"{reply.status} credentials refused")
    if reply.status >= 500:
        return Transient(f"{reply.status} from Netgsm")
    return Ambiguous(f"{reply.status} code {code[:16]}", unrecognised=True)


def _body(reply: Reply) -> Mapping[str, object]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
