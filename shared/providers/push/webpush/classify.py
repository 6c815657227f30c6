"""What a push service meant. Pure.

Sources: RFC 8030 sections 5 (201, 202), 5.2 (400 without TTL), 7.2 (413), 7.3 (404, 410), 8.4 (429 with Retry-After);
RFC 8292 section 4.2 (401, 403); Mozilla, "autopush HTTP endpoints for notifications" (400 to 413, 500, 503); Microsoft,
"Push notification service request and response headers" (406: over the service's rate); Google, "Web Push protocol:
response codes" (403: the subscription was made with another key).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

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

STATUSES: Final[Mapping[int, Outcome]] = {
    400: Permanent("400 request refused"),
    401: ProviderDown("401 VAPID signature refused: check ULAK_WEBPUSH_VAPID_KEY_FILE and the clock"),
    # A burst of these means that the key was exchanged, not a thousand dead browsers: nothing is switched off.
    403: Permanent("403 the subscription was made with another VAPID key", dead_letter=False),
    404: TargetGone("404 no such subscription"),
    406: Throttled(Scope.DOMAIN, "406 over the push service's rate"),
    410: TargetGone("410 unsubscribed"),
    413: Permanent("413 payload too large"),
    429: Throttled(Scope.DOMAIN, "429 too many requests"),
}
"""429 is one push service's word of many, so it holds up its own messages, never the account (P11)."""


def classify(reply: Reply, now: datetime) -> Outcome:
    """One reply as one outcome. A status that is not listed is Ambiguous."""
    if 200 <= reply.status < 300:
        return Accepted()
    outcome = STATUSES.get(reply.status)
    if isinstance(outcome, Throttled):
        return replace(outcome, retry_after_sec=retry_after_sec(reply.headers.get("retry-after"), now))
    if outcome is not None:
        return outcome
    if 300 <= reply.status < 400:
        return Permanent(f"{reply.status} redirect, which is not followed", dead_letter=False)
    if reply.status >= 500:
        return Transient(f"{reply.status} from the push service")
    return Ambiguous(str(reply.status), unrecognised=True)


def contained(outcome: Outcome) -> Outcome:
    """An outcome at a host that nobody vouches for, which says nothing of our account.

    Whoever registers a subscription chooses its host, and could else open the breaker for all browsers by answering
    badly. What would count against the provider holds up its own message alone.
    """
    match outcome:
        case ProviderDown(detail):
            return Permanent(detail, dead_letter=False)
        case Transient(detail) | Ambiguous(detail):
            return Throttled(Scope.TARGET, detail)
        case _:
            return outcome
