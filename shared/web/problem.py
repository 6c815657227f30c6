"""Refusals as RFC 9457 problems, and the kinds that every surface answers; each surface adds its own."""

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
    """A row of a table of refusals; call it with the sentence and the paths to get a Problem."""

    code: str
    status: int
    title: str

    def __call__(
        self, detail: str, *paths: str, errors: tuple[FieldError, ...] = (), headers: Mapping[str, str] | None = None
    ) -> Problem:
        listed = errors or tuple(FieldError(path) for path in paths)
        return Problem(self.status, self.code, self.title, detail, listed, headers or {})


MALFORMED_JSON: Final = ProblemKind("malformed_json", 400, "The body is not JSON")
NOT_FOUND: Final = ProblemKind("not_found", 404, "There is no such resource")
METHOD_NOT_ALLOWED: Final = ProblemKind("method_not_allowed", 405, "The method is not allowed here")
BODY_TOO_SLOW: Final = ProblemKind("body_too_slow", 408, "The body did not arrive in time")
BODY_TOO_LARGE: Final = ProblemKind("body_too_large", 413, "The body is too large")
UNSUPPORTED_MEDIA_TYPE: Final = ProblemKind("unsupported_media_type", 415, "The content type is not supported")
INVALID_REQUEST: Final = ProblemKind("invalid_request", 422, "The request has invalid fields")
RATE_LIMITED: Final = ProblemKind("rate_limited", 429, "Too many requests")
INTERNAL: Final = ProblemKind("internal_error", 500, "Something went wrong on our side")
UNAVAILABLE: Final = ProblemKind("temporarily_unavailable", 503, "Not available right now")


def unavailable() -> Problem:
    """503: the same request may simply be sent again, because every call of ours is idempotent or has a key."""
    return UNAVAILABLE(
        "The request could not be carried out now. Send the same request again: it is never carried out twice.",
        headers={"retry-after": "1"},
    )
