"""Refusals as RFC 9457 problems: every kind once, with its status, stable code and title."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

CONTENT_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class FieldError:
    """Where in the request (`params.carrier`, `items.3.userId`) and, where it helps, what is wrong there."""

    path: str
    detail: str | None = None

    def body(self) -> dict[str, Any]:
        return {"path": self.path} if self.detail is None else {"path": self.path, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal, ready to be answered. `detail` is a sentence that says what to do; headers go on the answer."""

    status: int
    code: str
    title: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The members of RFC 9457 plus `code` and, where fields are at fault, `errors`."""
        body: dict[str, Any] = {
            "type": f"urn:ulak:problem:{self.code.replace('_', '-')}",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            body["errors"] = [error.body() for error in self.errors]
        return body


class RefusedError(Exception):
    """Carries a problem out of nested calls to the place that answers."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A row of the table below; call it with the sentence and the paths to get a Problem."""

    code: str
    status: int
    title: str

    def __call__(
        self, detail: str, *paths: str, errors: tuple[FieldError, ...] = (), headers: Mapping[str, str] | None = None
    ) -> Problem:
        listed = errors or tuple(FieldError(path) for path in paths)
        return Problem(self.status, self.code, self.title, detail, listed, headers or {})


MALFORMED_JSON: Final = ProblemKind("malformed_json", 400, "The body is not JSON")
UNAUTHENTICATED: Final = ProblemKind("unauthenticated", 401, "No valid API key")
FORBIDDEN: Final = ProblemKind("scope_missing", 403, "The API key lacks the scope")
NOT_FOUND: Final = ProblemKind("not_found", 404, "There is no such resource")
NOTIFICATION_NOT_FOUND: Final = ProblemKind("notification_not_found", 404, "There is no such notification")
EVENT_ID_EXPIRED: Final = ProblemKind("event_id_expired", 404, "The event id is unknown or no longer kept")
REQUEST_ID_EXPIRED: Final = ProblemKind("request_id_expired", 404, "The request id is unknown or no longer kept")
METHOD_NOT_ALLOWED: Final = ProblemKind("method_not_allowed", 405, "The method is not allowed here")
BODY_TOO_SLOW: Final = ProblemKind("body_too_slow", 408, "The body did not arrive in time")
OTHER_BODY: Final = ProblemKind("idempotency_conflict", 409, "The same key came with another body")
EVENT_ID_AMBIGUOUS: Final = ProblemKind("event_id_ambiguous", 409, "The event id has several notifications")
NOTHING_TO_CANCEL: Final = ProblemKind("nothing_to_cancel", 409, "Nothing was stopped")
BODY_TOO_LARGE: Final = ProblemKind("body_too_large", 413, "The body is too large")
BATCH_TOO_LARGE: Final = ProblemKind("batch_too_large", 413, "The batch has too many items")
UNSUPPORTED_MEDIA_TYPE: Final = ProblemKind("unsupported_media_type", 415, "The content type is not supported")
INVALID_REQUEST: Final = ProblemKind("invalid_request", 422, "The request has invalid fields")
INVALID_ID: Final = ProblemKind("invalid_id", 422, "The id is not a notification id")
UNKNOWN_TYPE: Final = ProblemKind("unknown_type", 422, "The notification type is unknown")
UNKNOWN_CHANNEL: Final = ProblemKind("unknown_channel", 422, "The channel is unknown")
UNKNOWN_PRIORITY: Final = ProblemKind("unknown_priority", 422, "The priority is unknown")
TEMPLATE_MISSING: Final = ProblemKind("template_missing", 422, "There is no template")
PARAMETERS_MISSING: Final = ProblemKind("template_parameters_missing", 422, "Template parameters are missing")
INVALID_PARAMETERS: Final = ProblemKind("invalid_parameters", 422, "The parameters cannot be stored")
INVALID_ADDRESS: Final = ProblemKind("invalid_address", 422, "An address cannot be sent to")
INVALID_TIME_ZONE: Final = ProblemKind("invalid_time_zone", 422, "The time zone is unknown")
INVALID_TIME: Final = ProblemKind("invalid_time", 422, "A time is out of range")
EXPIRED_ON_ARRIVAL: Final = ProblemKind("expired_on_arrival", 422, "The notification has already expired")
ROW_REFUSED: Final = ProblemKind("row_refused", 422, "The database refused this notification")
RATE_LIMITED: Final = ProblemKind("rate_limited", 429, "Too many requests")
INTERNAL: Final = ProblemKind("internal_error", 500, "Something went wrong on our side")
UNAVAILABLE: Final = ProblemKind("temporarily_unavailable", 503, "Not available right now")
NOT_CONFIGURED: Final = ProblemKind("otp_not_configured", 503, "One-time passwords are not configured")


def unavailable() -> Problem:
    """503: the same request may simply be sent again, because its key makes it idempotent."""
    return UNAVAILABLE(
        "The request could not be stored now. Send the same request again: its id keeps it from being accepted twice.",
        headers={"retry-after": "1"},
    )
