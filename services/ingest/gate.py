"""What stands before every route: who calls, how fast, how large and how slow a body may be.

ASGI, because FastAPI reads the body before its dependencies run (architecture.md section 4): a caller without a key
must not be able to make us read one (A3, A4).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.ingest import problem
from services.ingest.caller import Caller, CallerCache
from services.ingest.caller import Scope as KeyScope
from services.ingest.problem import Problem
from services.ingest.rate import RateLimiter
from services.ingest.response import problem_response
from services.ingest.settings import IngestSettings
from shared.postgres.errors import UnavailableError
from shared.runtime.logs import get_logger
from shared.runtime.metrics import REQUESTS

_log = get_logger(__name__)

CALL: Final = "ulak.call"
"""Where the gate leaves the `Call` in the ASGI scope."""
OTP_PATH: Final = "/internal/v1/otp-messages"
NOTIFICATIONS_PATH: Final = "/internal/v1/notifications"
BATCH_PATH: Final = f"{NOTIFICATIONS_PATH}/batch"

_TRACEPARENT: Final = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, version 00; anything else is not passed on."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_WITHOUT_BODY: Final = "/cancel"
_KEPT_OPEN_BYTES: Final = 64 * 1024
"""A refused body up to this size is let run out, so that the connection can go on; above, it is closed."""
_LINGER_BYTES: Final = 8 * 1024 * 1024
_LINGER_SEC: Final = 2.0
"""How much of a refused body is thrown away, and for how long, before the connection is closed."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in: who calls, the whole body (empty where there is none), and the caller's trace."""

    caller: Caller
    body: bytes
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class _Headers:
    authorization: str
    content_type: str
    content_length: int | None
    traceparent: str | None

    @classmethod
    def read(cls, scope: Scope) -> "_Headers":
        authorization = content_type = ""
        content_length: int | None = None
        traceparent: str | None = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"content-type":
                content_type = value.decode("latin-1")
            elif name == b"content-length" and value.isdigit():
                content_length = int(value[:20])
            elif name == b"traceparent" and _TRACEPARENT.fullmatch(value):
                traceparent = value.decode()
        return cls(authorization, content_type, content_length, traceparent)


Endpoint = Callable[[Call], Awaitable[Response]]


class Gate:
    """The middleware. clock returns the present moment, aware.

    direct: POST paths that are answered here, without the router behind: FastAPI's way to a route costs as much as
    accepting the notification (docs/performance.md). The same endpoints stand in the router too, and document them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        direct: Mapping[str, Endpoint],
        callers: CallerCache,
        limiter: RateLimiter,
        settings: IngestSettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._app = app
        self._direct = direct
        self._callers = callers
        self._limiter = limiter
        self._settings = settings
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _Headers.read(scope)
        counted = _counted(send, _route_label(scope["path"]))
        try:
            admitted = await self._admit(scope, headers, receive)
            if admitted is None:
                return  # the caller hung up
            if isinstance(admitted, Response):
                await _refuse(admitted, scope, receive, counted)
                return
            endpoint = self._direct.get(scope["path"]) if scope["method"] == "POST" else None
            if endpoint is not None:
                response = await endpoint(admitted)
                await response(scope, receive, counted)
                return
            scope[CALL] = admitted
            await self._app(scope, receive, counted)
        except UnavailableError as error:
            _log.warning("request_unavailable", reason=str(error))
            await problem_response(problem.unavailable())(scope, receive, counted)

    async def _admit(self, scope: Scope, headers: _Headers, receive: Receive) -> Call | Response | None:
        with_body = scope["method"] in _WITH_BODY and not scope["path"].endswith(_WITHOUT_BODY)
        refusal, caller = await self._identify(scope["path"], headers)
        limit = self._settings.max_batch_bytes if scope["path"] == BATCH_PATH else self._settings.max_body_bytes
        if refusal is None and with_body:
            refusal = _declared(headers, limit)
        if refusal is not None:
            return problem_response(refusal, close=_must_close(scope["method"], headers))
        assert caller is not None
        if not with_body:
            return Call(caller, b"", headers.traceparent)
        try:
            async with asyncio.timeout(self._settings.body_timeout_sec):
                body = await _read(receive, limit)
        except TimeoutError:
            seconds = self._settings.body_timeout_sec
            return problem_response(
                problem.BODY_TOO_SLOW(f"The body was not complete after {seconds:g} s. Send it faster."), close=True
            )
        if isinstance(body, Problem):
            return problem_response(body, close=True)
        return None if body is None else Call(caller, body, headers.traceparent)

    async def _identify(self, path: str, headers: _Headers) -> tuple[Problem | None, Caller | None]:
        scheme, _, secret = headers.authorization.partition(" ")
        caller = await self._callers.find(secret.strip(), self._clock()) if scheme.lower() == "bearer" else None
        if caller is None:
            return _UNAUTHENTICATED, None
        needed = KeyScope.OTP if path.startswith(OTP_PATH) else KeyScope.NOTIFICATIONS
        if not caller.may(needed):
            return (
                problem.FORBIDDEN(
                    f"This API key has no scope `{needed}`. Use another key, or create one with `ulak api-keys create`."
                ),
                None,
            )
        retry_after = self._limiter.take(caller.key_id, caller.rate_per_second)
        if retry_after is not None:
            return rate_limited(caller, retry_after), None
        return None, caller


_UNAUTHENTICATED: Final = problem.UNAUTHENTICATED(
    "Send `Authorization: Bearer <API key>` with a key that is neither expired nor revoked; "
    "`ulak api-keys create` makes one.",
    headers={"www-authenticate": 'Bearer realm="ulak"'},
)


def rate_limited(caller: Caller, retry_after: int) -> Problem:
    return problem.RATE_LIMITED(
        f"The limit of API key {caller.key_name!r} is reached (requests a second, per process). "
        f"Come again after {retry_after} s, or raise the key's rate.",
        headers={"retry-after": str(retry_after)},
    )


def _declared(headers: _Headers, limit: int) -> Problem | None:
    """What the headers alone rule out."""
    if headers.content_type.partition(";")[0].strip().lower() != "application/json":
        return problem.UNSUPPORTED_MEDIA_TYPE("Send the body as JSON with `Content-Type: application/json`.")
    if headers.content_length is not None and headers.content_length > limit:
        return _too_large(limit)
    return None


def _must_close(method: str, headers: _Headers) -> bool:
    """Whether to close after a refusal whose body was not read, instead of waiting for a large one to run out."""
    return method in _WITH_BODY and (headers.content_length is None or headers.content_length > _KEPT_OPEN_BYTES)


async def _read(receive: Receive, limit: int) -> bytes | Problem | None:
    """The whole body, never holding more than `limit` bytes; None if the caller hung up."""
    message = await receive()
    first: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False) and len(first) <= limit:
        return first
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()


def _too_large(limit: int) -> Problem:
    return problem.BODY_TOO_LARGE(f"The body is larger than {limit} bytes. Send less, or split the batch.")


async def _refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer, and where the connection is to be closed let the rest of the body run out for a moment.

    Closing while the caller still sends would reset the connection, and take the answer that says why with it.
    """
    if response.headers.get("connection") != "close":
        await response(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SEC):
            size = 0
            while size < _LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _counted(send: Send, route: str) -> Send:
    async def count(message: Message) -> None:
        if message["type"] == "http.response.start":
            REQUESTS.labels(route, str(message["status"])).inc()
        await send(message)

    return count


_ROUTES: Final = frozenset({NOTIFICATIONS_PATH, BATCH_PATH, OTP_PATH})


def _route_label(path: str) -> str:
    """A bounded name for metrics: ids are folded."""
    if path in _ROUTES:
        return path
    if path.startswith(f"{NOTIFICATIONS_PATH}/"):
        tail = path.rsplit("/", 1)[-1]
        return f"{NOTIFICATIONS_PATH}/{{id}}{f'/{tail}' if tail in {'cancel', 'explain'} else ''}"
    return f"{OTP_PATH}/{{requestId}}" if path.startswith(f"{OTP_PATH}/") else "other"
