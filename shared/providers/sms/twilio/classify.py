"""What Twilio meant. Pure.

Sources: Twilio, "Error and Warning Dictionary" (codes), "Message resource" (create), "Best practices for scaling" (429:
the request was not processed). Unlisted codes are Ambiguous: guessing wrong loses or doubles a paid message.
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
    TargetGone,
    Throttled,
    Transient,
)
from shared.core.ports import Reply
from shared.providers.retry_after import retry_after_sec

CODES: Final[Mapping[int, Outcome]] = {
    20003: ProviderDown("20003 authentication refused"),
    20005: ProviderDown("20005 account not active"),
    20008: ProviderDown("20008 test credentials used"),
    20404: ProviderDown("20404 no such resource: check account and base URL"),
    20429: Throttled(Scope.ACCOUNT, "20429 too many requests"),
    21211: TargetGone("21211 not a valid number"),
    21212: ProviderDown("21212 sender number not valid", whole_account=False),
    21408: Permanent("21408 region not enabled for this account"),
    21602: Permanent("21602 message body missing"),
    21603: ProviderDown("21603 sender number missing", whole_account=False),
    21606: ProviderDown("21606 sender number not of this account", whole_account=False),
    21610: TargetGone("21610 recipient has opted out"),
    21611: Throttled(Scope.ACCOUNT, "21611 queue of the sender is full"),
    21612: Permanent("21612 no route from this sender to this number"),
    21614: TargetGone("21614 not a mobile number"),
    21617: Permanent("21617 message body over 1,600 characters"),
    21635: TargetGone("21635 landline"),
    21659: ProviderDown("21659 sender is not a Twilio number", whole_account=False),
    30001: Transient("30001 queue overflow", not_processed=True),
    30002: ProviderDown("30002 account suspended"),
    30003: Transient("30003 handset unreachable", not_processed=True, of_target=True),
    30004: Permanent("30004 blocked", dead_letter=False),
    30005: TargetGone("30005 unknown handset"),
    30006: Permanent("30006 landline or unreachable carrier", dead_letter=False),
    30007: Permanent("30007 filtered as spam"),
    63038: Throttled(Scope.ACCOUNT, "63038 daily limit of the account"),
}
"""21610 suppresses, 30006 is not retried, 30003 is, 429 and 20429 were never processed (S7)."""


def classify(reply: Reply, now: datetime) -> Outcome:  # noqa: PLR0911  one return per row of the table
    """One reply to a message's creation as one outcome.

    A 5xx without a listed code says nothing about whether the message was created: Transient and not `not_processed`,
    so an at-most-once delivery becomes UNKNOWN.
    """
    body = _body(reply)
    if 200 <= reply.status < 300:
        sid = body.get("sid")
        return Accepted(sid if isinstance(sid, str) else None)
    code = body.get("code")
    listed = CODES.get(code) if isinstance(code, int) else None
    if reply.status == 429 or isinstance(listed, Throttled):
        detail = listed.detail if isinstance(listed, Throttled) else "429 too many requests"
        return Throttled(Scope.ACCOUNT, detail, retry_after_sec(reply.headers.get("retry-after"), now))
    if listed is not None:
        return listed
    if reply.status in {401, 403}:
        return ProviderDown(f"{reply.status} credentials refused")
    if reply.status == 404:
        return CODES[20404]
    if reply.status >= 500:
        return Transient(f"{reply.status} from Twilio")
    return Ambiguous(f"{reply.status} code {code}", unrecognised=True)


def _body(reply: Reply) -> Mapping[str, object]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
