"""What can go wrong with a call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_NOT_NOW: Final = frozenset({429, 502, 503, 504})
"""Answers that say nothing about the request itself."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A wrong field: its path in the request (`params.orderNo`) and what is wrong there, where Ulak says so."""

    path: str
    detail: str | None = None


class UlakError(Exception):
    """Ulak refused the call. It quotes no recipient, code or parameter.

    UlakError
    +-- TryLaterError   no answer, or one that says "not now", to the last try

    status: of the answer, None where there was none. code: stable (docs/api.md). detail: what to do.
    request_key: the eventId, requestId or idempotencyKey of the call, where it has one.
    """

    def __init__(
        self,
        *,
        status: int | None,
        code: str,
        detail: str,
        errors: tuple[FieldError, ...] = (),
        request_key: str | None = None,
        retry_after_sec: float | None = None,
    ) -> None:
        fields = "".join(
            f"; {error.path}" if error.detail is None else f"; {error.path}: {error.detail}" for error in errors
        )
        super().__init__(f"{code}: {detail}{fields}" if status is None else f"{status} {code}: {detail}{fields}")
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.request_key = request_key
        self.retry_after_sec = retry_after_sec


class TryLaterError(UlakError):
    """Ulak did not take it now, or nobody knows. The same call with the same request_key may be made again.

    retry_after_sec: how long Ulak asked to be left alone, if it did.
    """


def refusal(
    status: int, body: Any, *, request_key: str | None = None, retry_after_sec: float | None = None
) -> UlakError:
    """The error of an answer that is no success; body: its JSON, RFC 9457 if it is Ulak's, else a proxy's or None."""
    kind = TryLaterError if status in _NOT_NOW else UlakError
    if not isinstance(body, Mapping) or not isinstance(body.get("code"), str):
        return kind(
            status=status,
            code="not_ulaks_answer",
            detail="something in between answered: check base_url and the proxies on the way",
            request_key=request_key,
            retry_after_sec=retry_after_sec,
        )
    return kind(
        status=status,
        code=body["code"],
        detail=str(body.get("detail") or body.get("title") or ""),
        errors=tuple(FieldError(str(error["path"]), error.get("detail")) for error in body.get("errors") or ()),
        request_key=request_key,
        retry_after_sec=retry_after_sec,
    )
