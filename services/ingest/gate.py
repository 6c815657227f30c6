"""What stands before every route: who calls, how fast, how large and how slow a body may be.

ASGI, because FastAPI reads the body before its dependencies run (architecture.md section 4): a caller without a key
must not be able to make us read one (A3, A4).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from services.ingest import problem
from services.ingest.caller import Caller, CallerCache
from services.ingest.settings import IngestSettings
from shared.postgres.api_key import Kind as KeyKind
from shared.postgres.api_key import Scope as KeyScope
from shared.postgres.errors import UnavailableError
from shared.runtime.logs import get_logger
from shared.web.body import NDJSON, WITH_BODY, RequestHeaders, counted, declared, must_close, read_body, refuse
from shared.web.endpoint import CALL, Endpoint
from shared.web.problem import Problem
from shared.web.rate import RateLimiter
from shared.web.response import problem_response

_log = get_logger(__name__)

OTP_PATH: Final = "/internal/v1/otp-messages"
NOTIFICATIONS_PATH: Final = "/internal/v1/notifications"
BATCH_PATH: Final = f"{NOTIFICATIONS_PATH}/batch"
DRY_RUN_PATH: Final = f"{NOTIFICATIONS_PATH}/dry-run"
BULK_CANCEL_PATH: Final = f"{NOTIFICATIONS_PATH}/cancel"
EMAILS_PATH: Final = "/internal/v1/emails"
CONSENTS_PATH: Final = "/internal/v1/consents"
IMPORTS_PATH: Final = "/internal/v1/imports"
ADMIN_NOUNS: Final = frozenset(
    {
        *("notification-types", "templates", "event-mappings", "sender-profiles", "frequency-caps"),
        *("recipients", "consents", "suppressions", "imports"),
        *("applications", "api-keys", "audit-log"),
    }
)
"""What administration is about, as its paths begin; they need a key with the scope `admin`."""
_WHO_CALLS: Final = frozenset({"applications", "api-keys"})
"""For live keys alone: one that reaches its allow-list, or nobody, must not make itself one that reaches everybody."""
_PREFIX: Final = "/internal/v1/"
_BATCHES: Final = frozenset({BATCH_PATH, CONSENTS_PATH})

_WITHOUT_BODY: Final = ("/cancel", "/publish", "/abort", "/revoke")
"""Ends of paths whose POST says all by itself; a bulk cancel's body says what is meant."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in: who calls, the whole body (empty where there is none), and the caller's trace.

    receive: only for an import, whose body nobody has read yet.
    """

    caller: Caller
    body: bytes
    traceparent: str | None
    headers: Sequence[tuple[bytes, bytes]] = ()
    receive: Receive | None = None

    def header(self, name: str) -> str | None:
        """A header's value, by its lower-case name; None where it was not sent."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.headers if key == wanted), None)


class Gate:
    """The middleware. clock returns the present moment, aware.

    direct: POST paths that are answered here, without the router behind: FastAPI's way to a route costs as much as
    accepting the notification (docs/performance.md). The same endpoints stand in the router too, and document them.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        direct: Mapping[str, Endpoint[Call]],
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
        headers = RequestHeaders.read(scope)
        counting = counted(send, _route_label(scope["path"]))
        try:
            admitted = await self._admit(scope, headers, receive)
            if admitted is None:
                return  # the caller hung up
            if isinstance(admitted, Response):
                await refuse(admitted, scope, receive, counting)
                return
            endpoint = self._direct.get(scope["path"]) if scope["method"] == "POST" else None
            if endpoint is not None:
                response = await endpoint(admitted)
                await response(scope, receive, counting)
                return
            scope[CALL] = admitted
            await self._app(scope, receive, counting)
        except UnavailableError as error:
            _log.warning("request_unavailable", reason=str(error))
            await problem_response(problem.unavailable())(scope, receive, counting)

    async def _admit(self, scope: Scope, headers: RequestHeaders, receive: Receive) -> Call | Response | None:
        says_all = scope["path"].endswith(_WITHOUT_BODY) and scope["path"] != BULK_CANCEL_PATH
        with_body = scope["method"] in WITH_BODY and not says_all
        refusal, caller = await self._identify(scope["path"], headers)
        if refusal is None and with_body:
            refusal = self._declared(scope["path"], headers)
        if refusal is not None:
            return problem_response(refusal, close=must_close(scope["method"], headers))
        assert caller is not None
        if not with_body:
            return Call(caller, b"", headers.traceparent, scope["headers"])
        if _streams(scope["path"]):
            return Call(caller, b"", headers.traceparent, scope["headers"], receive)
        limit = self._limit(scope["path"])
        body = await read_body(receive, limit=limit, timeout_sec=self._settings.body_timeout_sec)
        if isinstance(body, Problem):
            return problem_response(body, close=True)
        return None if body is None else Call(caller, body, headers.traceparent, scope["headers"])

    def _declared(self, path: str, headers: RequestHeaders) -> Problem | None:
        if _streams(path):
            wanted = None if headers.content_length == 0 else NDJSON
            return declared(headers, self._settings.import_max_bytes, media_type=wanted)
        return declared(headers, self._limit(path))

    def _limit(self, path: str) -> int:
        return self._settings.max_batch_bytes if path in _BATCHES else self._settings.max_body_bytes

    async def _identify(self, path: str, headers: RequestHeaders) -> tuple[Problem | None, Caller | None]:
        secret = headers.bearer
        caller = None if secret is None else await self._callers.find(secret, self._clock())
        if caller is None:
            return _UNAUTHENTICATED, None
        refusal = _forbidden(caller, path)
        if refusal is not None:
            return refusal, None
        retry_after = self._limiter.take(caller.key_id, caller.rate_per_second)
        if retry_after is not None:
            return rate_limited(caller, retry_after), None
        return None, caller


def _forbidden(caller: Caller, path: str) -> Problem | None:
    needed = _needed(path)
    if not caller.may(needed):
        return problem.FORBIDDEN(
            f"This API key has no scope `{needed}`. Use another key, or create one with `ulak api-keys create`."
        )
    if _noun(path) in _WHO_CALLS and caller.mode != KeyKind.LIVE:
        return problem.LIVE_KEY_NEEDED(
            f"This API key's kind is {caller.mode}. Use a live key with the scope `{needed}`, or `ulak api-keys`."
        )
    return None


def _needed(path: str) -> KeyScope:
    if path.startswith(OTP_PATH):
        return KeyScope.OTP
    return KeyScope.ADMIN if _noun(path) in ADMIN_NOUNS else KeyScope.NOTIFICATIONS


def _streams(path: str) -> bool:
    """Whether the route reads the body itself, as it comes."""
    return path.startswith(f"{IMPORTS_PATH}/")


def _noun(path: str) -> str:
    """`templates` of `/internal/v1/templates/...`."""
    return path.removeprefix(_PREFIX).partition("/")[0]


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


_ROUTES: Final = frozenset({NOTIFICATIONS_PATH, BATCH_PATH, DRY_RUN_PATH, BULK_CANCEL_PATH, EMAILS_PATH, OTP_PATH})
_TAILS: Final = frozenset({"cancel", "explain"})


def _route_label(path: str) -> str:
    """A bounded name for metrics: ids are folded."""
    if path in _ROUTES:
        return path
    for route in (NOTIFICATIONS_PATH, EMAILS_PATH):
        if path.startswith(f"{route}/"):
            tail = path.rsplit("/", 1)[-1]
            return f"{route}/{{id}}{f'/{tail}' if tail in _TAILS else ''}"
    if _noun(path) in ADMIN_NOUNS:
        return f"{_PREFIX}{_noun(path)}"
    return f"{OTP_PATH}/{{requestId}}" if path.startswith(f"{OTP_PATH}/") else "other"
