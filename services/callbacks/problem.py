"""Refusals as `application/problem+json` (RFC 9457), as on every surface of Ulak."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response


class Problem(Exception):  # noqa: N818  what is answered, not what went wrong with us
    """One refusal: raised anywhere while a callback is taken in, answered by the app."""

    def __init__(
        self, status: int, code: str, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self._title = title
        self._detail = detail
        self._headers = dict(headers or {})

    def response(self) -> Response:
        body = {
            "type": f"urn:ulak:problem:{self.code.replace('_', '-')}",
            "title": self._title,
            "status": self.status,
            "code": self.code,
            "detail": self._detail,
        }
        return Response(orjson.dumps(body), self.status, self._headers, media_type="application/problem+json")


def unknown_provider() -> Problem:
    return Problem(404, "unknown_provider", "Unknown provider", "No such provider is configured to call back here.")


def unsigned(detail: str) -> Problem:
    return Problem(401, "signature_missing", "Signature missing", detail, {"WWW-Authenticate": "Signature"})


def forged(detail: str) -> Problem:
    return Problem(403, "signature_refused", "Signature refused", detail)


def too_large(limit: int) -> Problem:
    return Problem(413, "body_too_large", "Body too large", f"A callback has at most {limit} bytes.")


def too_slow(limit_sec: float) -> Problem:
    return Problem(408, "body_too_slow", "Body too slow", f"The body did not arrive within {limit_sec:g} seconds.")


def busy(detail: str) -> Problem:
    return Problem(503, "try_again", "Try again", detail, {"Retry-After": "5"})
