"""FCM's error bodies.

Sources (Firebase documentation): 'FCM Error Codes' (REST ErrorCode) and 'Google APIs error model' (google.rpc.Status).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ops.simulator.exchange import Reply, json_reply

FCM_ERROR: Final = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"


@dataclass(frozen=True, slots=True)
class Failure:
    """One error reply. error_code is FCM's own, for the ledger it falls back on the google.rpc status."""

    http_status: int
    status: str
    message: str
    error_code: str | None = None
    details: tuple[Mapping[str, object], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.error_code or self.status

    def reply(self) -> Reply:
        details: list[Mapping[str, object]] = list(self.details)
        if self.error_code is not None:
            details.append({"@type": FCM_ERROR, "errorCode": self.error_code})
        error: dict[str, object] = {"code": self.http_status, "message": self.message, "status": self.status}
        if details:
            error["details"] = details
        return json_reply(self.http_status, {"error": error}, *self.headers)


def invalid_argument(message: str, field: str | None = None) -> Failure:
    """400 with the FCM error code, and the field at fault when one can be named."""
    details: Sequence[Mapping[str, object]] = (
        [{"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": message}]}] if field else []
    )
    return Failure(400, "INVALID_ARGUMENT", message, "INVALID_ARGUMENT", tuple(details))


def malformed(description: str, field: str) -> Failure:
    """400 of the JSON layer in front of FCM: no FCM error code, because FCM never saw the request."""
    details = {"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": description}]}
    return Failure(400, "INVALID_ARGUMENT", description, None, (details,))


def _unauthenticated(reason: str, message: str) -> Failure:
    info = {
        "@type": ERROR_INFO,
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {
            "service": "fcm.googleapis.com",
            "method": "google.firebase.fcm.v1.FcmService.SendMessage",
        },
    }
    return Failure(401, "UNAUTHENTICATED", message, None, (info,))


CREDENTIALS_MISSING: Final = _unauthenticated(
    "CREDENTIALS_MISSING",
    "Request is missing required authentication credential. Expected OAuth 2 access token, login cookie or other "
    "valid authentication credential.",
)
TOKEN_INVALID: Final = _unauthenticated(
    "ACCESS_TOKEN_TYPE_UNSUPPORTED",
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential.",
)
TOKEN_EXPIRED: Final = _unauthenticated(
    "ACCESS_TOKEN_EXPIRED",
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential.",
)
UNREGISTERED: Final = Failure(404, "NOT_FOUND", "Requested entity was not found.", "UNREGISTERED")
SENDER_ID_MISMATCH: Final = Failure(403, "PERMISSION_DENIED", "SenderId mismatch", "SENDER_ID_MISMATCH")
QUOTA_EXCEEDED: Final = Failure(
    429,
    "RESOURCE_EXHAUSTED",
    "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' of service "
    "'fcm.googleapis.com'.",
    "QUOTA_EXCEEDED",
    headers=(("retry-after", "60"),),
)
UNAVAILABLE: Final = Failure(503, "UNAVAILABLE", "The service is currently unavailable.", "UNAVAILABLE")
INTERNAL: Final = Failure(500, "INTERNAL", "Internal error encountered.", "INTERNAL")
THIRD_PARTY_AUTH_ERROR: Final = Failure(
    401, "UNAUTHENTICATED", "Auth error from APNS or Web Push Service", "THIRD_PARTY_AUTH_ERROR"
)
BAD_TOKEN: Final = invalid_argument("The registration token is not a valid FCM registration token", "message.token")

TOKEN_PREFIXES: Final[Mapping[str, Failure]] = {
    "unregistered-": UNREGISTERED,
    "invalid-": BAD_TOKEN,
    "mismatch-": SENDER_ID_MISMATCH,
    "quota-": QUOTA_EXCEEDED,
    "unavailable-": UNAVAILABLE,
    "internal-": INTERNAL,
    "third-party-auth-": THIRD_PARTY_AUTH_ERROR,
}
"""Registration tokens that begin so always get that answer."""

USUAL: Final[Mapping[int, Failure]] = {
    400: BAD_TOKEN,
    401: TOKEN_EXPIRED,
    403: SENDER_ID_MISMATCH,
    404: UNREGISTERED,
    429: QUOTA_EXCEEDED,
    500: INTERNAL,
    503: UNAVAILABLE,
}
"""The failure that goes with a programmed status that came without a body."""


def permission_denied(project: str) -> Failure:
    """The account may not send for this project."""
    return Failure(
        403,
        "PERMISSION_DENIED",
        "Permission 'cloudmessaging.messages.create' denied on resource "
        f"'//cloudresourcemanager.googleapis.com/projects/{project}' (or it may not exist).",
    )
