"""The receiver's HTTP surface. The body is read inside `Receiver`, within its limits, never by the framework."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from services.callbacks.problem import busy
from services.callbacks.receiver import Incoming
from shared.web.problem import RefusedError
from shared.web.response import problem_response

_PROBLEM: Final = {
    "application/problem+json": {
        "schema": {
            "type": "object",
            "required": ["type", "title", "status", "code", "detail"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "code": {"type": "string"},
                "detail": {"type": "string"},
            },
        }
    }
}
_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "No signature.", "content": _PROBLEM},
    403: {"description": "Wrong or outdated signature.", "content": _PROBLEM},
    404: {"description": "No such provider or account.", "content": _PROBLEM},
    408: {"description": "The body came too slowly.", "content": _PROBLEM},
    413: {"description": "The body is too large.", "content": _PROBLEM},
    503: {"description": "It could not be stored; call again.", "content": _PROBLEM},
}


Take = Callable[[str, Incoming], Awaitable[None]]
"""`Receiver.take`."""


def create_app(take: Take) -> FastAPI:
    """POST /callbacks/{provider} and /callbacks/{provider}/{account}: 204 once durable, else problem+json."""
    app = FastAPI(title="Ulak callbacks", version="1", docs_url=None, redoc_url=None, openapi_url=None)

    @app.exception_handler(RefusedError)
    async def refuse(_request: Request, refusal: RefusedError) -> Response:
        return problem_response(refusal.problem)

    @app.post("/callbacks/{provider}", status_code=204, response_class=Response, responses=_REFUSALS)
    async def callback(provider: str, request: Request) -> Response:
        """A provider's receipt, signed as that provider signs."""
        await take(provider, _incoming(request))
        return Response(status_code=204)

    @app.post("/callbacks/{provider}/{account}", status_code=204, response_class=Response, responses=_REFUSALS)
    async def account_callback(provider: str, account: str, request: Request) -> Response:
        """The same for one of several accounts at a provider."""
        await take(f"{provider}/{account}", _incoming(request))
        return Response(status_code=204)

    return app


def _incoming(request: Request) -> Incoming:
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    target = path + b"?" + query if query else path
    return Incoming(target.decode("latin-1"), dict(request.headers), _chunks(request))


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as error:
        raise busy("The connection was lost while the body arrived.") from error
