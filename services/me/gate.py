"""What stands before every route: who calls, how fast, how large and how slow a body may be, and from which page.

ASGI, because FastAPI reads the body before its dependencies run (architecture.md section 4): a caller without a token
must not be able to make us read one (A3, A4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.me import problem
from services.me.limit import UserLimiter
from services.me.settings import MeSettings
from services.me.token import TokenReader
from shared.runtime.error import OperatorError
from shared.runtime.logs import get_logger
from shared.web.body import JSON, WITH_BODY, RequestHeaders, counted, declared, must_close, read_body, refuse
from shared.web.endpoint import CALL
from shared.web.problem import RATE_LIMITED, Problem, unavailable
from shared.web.response import problem_response

_log = get_logger(__name__)

ME_PATH: Final = "/api/v1/me"
PREFERENCES_PATH: Final = f"{ME_PATH}/notification-preferences"
DEVICES_PATH: Final = f"{ME_PATH}/devices"
NOTIFICATIONS_PATH: Final = f"{ME_PATH}/notifications"
STREAM_PATH: Final = f"{ME_PATH}/stream"
"""Let in without a token, because a browser cannot send one with it: its route checks the ticket (api.md)."""
STREAM_TICKETS_PATH: Final = f"{ME_PATH}/stream-tickets"
UNSUBSCRIBE_PATH: Final = "/u"
"""`/u/{token}`: whoever holds the link may use it, so there is nobody to identify (RFC 8058)."""

_MAX_FORM_BYTES: Final = 4 * 1024
"""`List-Unsubscribe=One-Click`, as a mailbox provider or our own page sends it, in whatever encoding."""
_WITHOUT_BODY: Final = ("/received", "/seen", "/read", "/archived", "/opened", "/read-all", STREAM_TICKETS_PATH)
"""Ends of paths whose POST says all by itself."""

_METHODS: Final = "GET, PUT, POST, DELETE"
_REQUEST_HEADERS: Final = "Authorization, Content-Type, Last-Event-ID, traceparent"
_EXPOSED: Final = "Retry-After"
_PREFLIGHT_SEC: Final = 600
_SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""On every answer that does not say otherwise: what is one user's is kept by no cache and shown in no frame."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in: whose it is, the whole body (empty where there is none), and the caller's trace.

    user is the external id; token_expires_at is in seconds since the epoch.
    """

    user: str
    token_expires_at: float
    body: bytes
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class Visit:
    """A request to a path that asks for no token; `headers` are all of them, by lower-case name."""

    body: bytes
    headers: Mapping[str, str]


class Gate:
    """The middleware."""

    def __init__(self, app: ASGIApp, *, tokens: TokenReader, limiter: UserLimiter, settings: MeSettings) -> None:
        self._app = app
        self._tokens = tokens
        self._limiter = limiter
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = RequestHeaders.read(scope)
        answering = self._answering(counted(send, _route_label(scope["path"])), headers.origin)
        if scope["method"] == "OPTIONS":
            await _preflight(headers.origin in self._settings.origins)(scope, receive, answering)
            return
        try:
            admitted = await self._admit(scope, headers, receive)
        except OperatorError as error:
            _log.warning("request_unavailable", error=type(error).__name__, reason=str(error))
            admitted = problem_response(unavailable(), close=must_close(scope["method"], headers))
        if admitted is None:
            return  # the caller hung up
        if isinstance(admitted, Response):
            await refuse(admitted, scope, receive, answering)
            return
        scope[CALL] = admitted
        await self._app(scope, receive, answering)

    async def _admit(self, scope: Scope, headers: RequestHeaders, receive: Receive) -> Call | Visit | Response | None:
        path: str = scope["path"]
        if path.startswith(f"{UNSUBSCRIBE_PATH}/") or path == STREAM_PATH:
            body = await self._body(scope, headers, receive, _MAX_FORM_BYTES, json=False)
            if body is None or isinstance(body, Response):
                return body
            return Visit(body, {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]})
        token = headers.bearer
        identity = None if token is None else await self._tokens.read(token)
        refusal: Problem | None = None
        if identity is None:
            refusal = _UNAUTHENTICATED
        elif (retry_after := await self._limiter.take(identity.user)) is not None:
            refusal = _rate_limited(retry_after)
        if refusal is not None or identity is None:
            return problem_response(refusal or _UNAUTHENTICATED, close=must_close(scope["method"], headers))
        body = await self._body(scope, headers, receive, self._settings.max_body_bytes, json=True)
        if body is None or isinstance(body, Response):
            return body
        return Call(identity.user, identity.expires_at, body, headers.traceparent)

    async def _body(
        self, scope: Scope, headers: RequestHeaders, receive: Receive, limit: int, *, json: bool
    ) -> bytes | Response | None:
        if scope["method"] not in WITH_BODY or scope["path"].endswith(_WITHOUT_BODY):
            return b""
        refusal = declared(headers, limit, media_type=JSON if json else None)
        if refusal is not None:
            return problem_response(refusal, close=must_close(scope["method"], headers))
        body = await read_body(receive, limit=limit, timeout_sec=self._settings.body_timeout_sec)
        return problem_response(body, close=True) if isinstance(body, Problem) else body

    def _answering(self, send: Send, origin: str) -> Send:
        """`send`, with the headers that every answer carries."""
        allowed = origin if origin in self._settings.origins else None

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if self._settings.origins:
                    headers.add_vary_header("Origin")
                if allowed is not None:
                    headers["access-control-allow-origin"] = allowed
                    headers["access-control-expose-headers"] = _EXPOSED
                message = {**message, "headers": headers.raw}
            await send(message)

        return answer


def _preflight(allowed: bool) -> Response:
    """What a browser asks before it lets a page call us. Never with credentials: a token travels by its header."""
    if not allowed:
        return Response(status_code=403)
    return Response(
        status_code=204,
        headers={
            "access-control-allow-methods": _METHODS,
            "access-control-allow-headers": _REQUEST_HEADERS,
            "access-control-max-age": str(_PREFLIGHT_SEC),
        },
    )


_UNAUTHENTICATED: Final = problem.UNAUTHENTICATED(
    "Send `Authorization: Bearer <JWT>` with a token of the configured issuer and audience that has not expired.",
    headers={"www-authenticate": 'Bearer realm="ulak", error="invalid_token"'},
)


def _rate_limited(retry_after: int) -> Problem:
    return RATE_LIMITED(
        f"This user calls too often. Come again after {retry_after} s.", headers={"retry-after": str(retry_after)}
    )


_ROUTES: Final = frozenset(
    {
        PREFERENCES_PATH,
        DEVICES_PATH,
        NOTIFICATIONS_PATH,
        STREAM_PATH,
        STREAM_TICKETS_PATH,
        f"{NOTIFICATIONS_PATH}/unread-count",
        f"{NOTIFICATIONS_PATH}/read-all",
    }
)
_TAILS: Final = frozenset({"received", "seen", "read", "archived", "opened"})


def _route_label(path: str) -> str:
    """A bounded name for metrics: ids and tokens are folded."""
    if path in _ROUTES:
        return path
    if path.startswith(f"{DEVICES_PATH}/"):
        return f"{DEVICES_PATH}/{{deviceId}}"
    if path.startswith(f"{NOTIFICATIONS_PATH}/"):
        tail = path.rsplit("/", 1)[-1]
        return f"{NOTIFICATIONS_PATH}/{{id}}{f'/{tail}' if tail in _TAILS else ''}"
    return f"{UNSUBSCRIBE_PATH}/{{token}}" if path.startswith(f"{UNSUBSCRIBE_PATH}/") else "other"
