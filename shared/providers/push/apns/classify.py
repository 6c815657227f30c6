"""What APNs meant. Pure. Source: Apple, "Handling notification responses from APNs", table of reasons."""

from collections.abc import Mapping
from dataclasses import replace
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

EXPIRED_TOKEN: Final = "ExpiredProviderToken"  # noqa: S105  a reason's name

REASONS: Final[Mapping[str, Outcome]] = {
    # A burst of these means the wrong environment or app, not a thousand dead devices: nothing is switched off (P6).
    "BadDeviceToken": Permanent("BadDeviceToken", dead_letter=False, of_account=True),
    "DeviceTokenNotForTopic": Permanent("DeviceTokenNotForTopic", dead_letter=False, of_account=True),
    "ExpiredToken": TargetGone("ExpiredToken"),
    "Unregistered": TargetGone("Unregistered"),
    "BadCollapseId": Permanent("BadCollapseId"),
    "BadExpirationDate": Permanent("BadExpirationDate"),
    "BadMessageId": Permanent("BadMessageId"),
    "BadPriority": Permanent("BadPriority"),
    "DuplicateHeaders": Permanent("DuplicateHeaders"),
    "InvalidPushType": Permanent("InvalidPushType"),
    "MissingDeviceToken": Permanent("MissingDeviceToken"),
    "PayloadEmpty": Permanent("PayloadEmpty"),
    "PayloadTooLarge": Permanent("PayloadTooLarge"),
    "BadTopic": ProviderDown("BadTopic", whole_account=False),
    "MissingTopic": ProviderDown("MissingTopic", whole_account=False),
    "TopicDisallowed": ProviderDown("TopicDisallowed", whole_account=False),
    "BadCertificate": ProviderDown("BadCertificate"),
    "BadCertificateEnvironment": ProviderDown("BadCertificateEnvironment"),
    "BadEnvironmentKeyIdInToken": ProviderDown("BadEnvironmentKeyIdInToken"),
    EXPIRED_TOKEN: ProviderDown(EXPIRED_TOKEN),
    "Forbidden": ProviderDown("Forbidden"),
    "InvalidProviderToken": ProviderDown("InvalidProviderToken"),
    "MissingProviderToken": ProviderDown("MissingProviderToken"),
    "UnrelatedKeyIdInToken": ProviderDown("UnrelatedKeyIdInToken"),
    "BadPath": ProviderDown("BadPath"),
    "MethodNotAllowed": ProviderDown("MethodNotAllowed"),
    "TooManyRequests": Throttled(Scope.TARGET, "TooManyRequests"),  # per device token, not the account
    "TooManyProviderTokenUpdates": Throttled(Scope.ACCOUNT, "TooManyProviderTokenUpdates"),
    "IdleTimeout": Transient("IdleTimeout"),
    "InternalServerError": Transient("InternalServerError"),
    "ServiceUnavailable": Transient("ServiceUnavailable"),
    "Shutdown": Transient("Shutdown"),
}


def reason_of(reply: Reply) -> str | None:
    """The `reason` of a refusal's JSON body, None where there is none."""
    try:
        body = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    reason = body.get("reason") if isinstance(body, dict) else None
    return reason if isinstance(reason, str) else None


def classify(reply: Reply, now: datetime) -> Outcome:
    """One reply as one outcome. An unknown reason is Ambiguous, never Permanent: guessing wrong loses a message."""
    if reply.status == 200:
        return Accepted(reply.headers.get("apns-id"))
    reason = reason_of(reply)
    outcome = REASONS.get(reason or "")
    if isinstance(outcome, Throttled):
        return replace(outcome, retry_after_sec=retry_after_sec(reply.headers.get("retry-after"), now))
    if outcome is not None:
        return outcome
    if reply.status >= 500:
        return Transient(f"{reply.status} {reason}")
    return Ambiguous(f"{reply.status} {reason}", unrecognised=True)
