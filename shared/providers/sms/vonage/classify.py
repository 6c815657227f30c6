"""What Vonage meant. Pure.

Sources: Vonage, "API errors: SMS" (developer.vonage.com/api-errors/sms) and "Troubleshooting SMS" (the table of
statuses, and the reply: one entry per part of a message). A status of 1 was not sent. Unlisted ones are Ambiguous.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import orjson

from shared.core.cost import Cost, Price, micros_of
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

STATUSES: Final[Mapping[str, Outcome]] = {
    "1": Throttled(Scope.ACCOUNT, "1 faster than the account's limit"),
    "2": Permanent("2 a parameter is missing"),
    "3": Permanent("3 a parameter is not valid"),
    "4": ProviderDown("4 key or secret refused"),
    "5": Transient("5 internal error"),  # nothing says that it was not sent
    "6": Permanent("6 no such prefix, or not a message"),
    "7": Permanent("7 number barred by Vonage", dead_letter=False),
    "8": ProviderDown("8 account suspended"),
    "9": ProviderDown("9 no credit left: top up"),
    "10": Throttled(Scope.ACCOUNT, "10 too many connections"),
    "11": ProviderDown("11 account not enabled for HTTP"),
    "12": Permanent("12 message too long"),
    "14": ProviderDown("14 signature refused"),
    "15": ProviderDown("15 sender not allowed", whole_account=False),
    "22": Permanent("22 network code not valid"),
    "23": ProviderDown("23 callback URL not valid"),
    "29": Permanent("29 destination not on the trial account's list"),
    "32": ProviderDown("32 secret and signature together"),
    "33": TargetGone("33 number deactivated"),
}


def classify(reply: Reply, now: datetime, currency: str) -> Outcome:
    """One reply as one outcome, its cost as Vonage says it; currency: of its prices, which the reply does not name.

    A 5xx, and a message of which some parts were taken and others not, say nothing that could be relied on.
    """
    wait_sec = retry_after_sec(reply.headers.get("retry-after"), now)
    parts = _parts(reply)
    if reply.status == 200 and parts:
        return _of_parts(parts, wait_sec, currency)
    if reply.status == 429:
        return Throttled(Scope.ACCOUNT, "429 too many requests", wait_sec)
    if reply.status in {401, 402, 403}:
        return ProviderDown(f"{reply.status} credentials refused or no credit")
    if reply.status >= 500:
        return Transient(f"{reply.status} from Vonage")
    return Ambiguous(f"{reply.status} without a message", unrecognised=True)


def _of_parts(parts: Sequence[Mapping[str, Any]], wait_sec: float | None, currency: str) -> Outcome:
    statuses = {str(part.get("status")) for part in parts}
    if statuses == {"0"}:
        message_id = parts[0].get("message-id")
        return Accepted(message_id if isinstance(message_id, str) else None, _cost(parts, currency))
    if "0" in statuses:
        return Ambiguous(f"some parts were taken, others not: {', '.join(sorted(statuses))}")
    status = min(statuses)
    outcome = STATUSES.get(status)
    if isinstance(outcome, Throttled):
        return replace(outcome, retry_after_sec=wait_sec)
    return Ambiguous(f"status {status[:16]}", unrecognised=True) if outcome is None else outcome


def _cost(parts: Sequence[Mapping[str, Any]], currency: str) -> Cost:
    """A price that is missing or cannot be read is none, rather than a wrong one."""
    try:
        micros = sum(micros_of(str(part["message-price"])) for part in parts)
    except (KeyError, ValueError):
        return Cost(len(parts))
    return Cost(len(parts), Price(micros, currency))


def _parts(reply: Reply) -> Sequence[Mapping[str, Any]]:
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return []
    parts = body.get("messages") if isinstance(body, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
