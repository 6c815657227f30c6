"""What the internal API refuses: the kinds of every surface, and its own, each once."""

from typing import Final

from shared.web.problem import (
    BODY_TOO_LARGE,
    BODY_TOO_SLOW,
    INTERNAL,
    INVALID_REQUEST,
    MALFORMED_JSON,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    RATE_LIMITED,
    UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
    ProblemKind,
    unavailable,
)

# Those of every surface, named here too, so that a route has one table to choose from; its own follow.
__all__ = [
    "BODY_TOO_LARGE",
    "BODY_TOO_SLOW",
    "INTERNAL",
    "INVALID_REQUEST",
    "MALFORMED_JSON",
    "METHOD_NOT_ALLOWED",
    "NOT_FOUND",
    "RATE_LIMITED",
    "UNAVAILABLE",
    "UNSUPPORTED_MEDIA_TYPE",
    "unavailable",
]

UNAUTHENTICATED: Final = ProblemKind("unauthenticated", 401, "No valid API key")
FORBIDDEN: Final = ProblemKind("scope_missing", 403, "The API key lacks the scope")
LIVE_KEY_NEEDED: Final = ProblemKind("live_key_needed", 403, "Only a live API key may do this")
EMAIL_NOT_FOUND: Final = ProblemKind("email_not_found", 404, "There is no such e-mail")
NOTIFICATION_NOT_FOUND: Final = ProblemKind("notification_not_found", 404, "There is no such notification")
EVENT_ID_EXPIRED: Final = ProblemKind("event_id_expired", 404, "The event id is unknown or no longer kept")
REQUEST_ID_EXPIRED: Final = ProblemKind("request_id_expired", 404, "The request id is unknown or no longer kept")
OTHER_BODY: Final = ProblemKind("idempotency_conflict", 409, "The same key came with another body")
EVENT_ID_AMBIGUOUS: Final = ProblemKind("event_id_ambiguous", 409, "The event id has several notifications")
NOTHING_TO_CANCEL: Final = ProblemKind("nothing_to_cancel", 409, "Nothing was stopped")
BATCH_TOO_LARGE: Final = ProblemKind("batch_too_large", 413, "The batch has too many items")
INVALID_ID: Final = ProblemKind("invalid_id", 422, "The id is not one of this kind")
UNKNOWN_TYPE: Final = ProblemKind("unknown_type", 422, "The notification type is unknown")
UNKNOWN_CHANNEL: Final = ProblemKind("unknown_channel", 422, "The channel is unknown")
UNKNOWN_PRIORITY: Final = ProblemKind("unknown_priority", 422, "The priority is unknown")
TEMPLATE_MISSING: Final = ProblemKind("template_missing", 422, "There is no template")
PARAMETERS_MISSING: Final = ProblemKind("template_parameters_missing", 422, "Template parameters are missing")
INVALID_PARAMETERS: Final = ProblemKind("invalid_parameters", 422, "The parameters cannot be stored")
INVALID_ADDRESS: Final = ProblemKind("invalid_address", 422, "An address cannot be sent to")
INVALID_ATTACHMENT: Final = ProblemKind("invalid_attachment", 422, "An attachment cannot be sent")
MARKETING_REFUSED: Final = ProblemKind("marketing_refused", 422, "Marketing needs a consent")
MARKETING_TO_SEVERAL: Final = ProblemKind("marketing_to_several", 422, "Marketing goes to one recipient a mail")
INVALID_TIME_ZONE: Final = ProblemKind("invalid_time_zone", 422, "The time zone is unknown")
INVALID_TIME: Final = ProblemKind("invalid_time", 422, "A time is out of range")
EXPIRED_ON_ARRIVAL: Final = ProblemKind("expired_on_arrival", 422, "The notification has already expired")
ROW_REFUSED: Final = ProblemKind("row_refused", 422, "The database refused this notification")
NOT_CONFIGURED: Final = ProblemKind("otp_not_configured", 503, "One-time passwords are not configured")
