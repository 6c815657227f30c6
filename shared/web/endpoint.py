"""What every route is made of: the call that a gate let in, what goes wrong in it, and how it is documented."""

import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from fastapi import Request
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.responses import Response

from shared.runtime.error import OperatorError
from shared.runtime.logs import get_logger
from shared.web.model import ProblemAnswer
from shared.web.problem import INTERNAL, MALFORMED_JSON, RefusedError, unavailable
from shared.web.response import problem_response

_log = get_logger(__name__)

CALL: Final = "ulak.call"
"""Where a gate leaves its call in the ASGI scope."""
BODY_PROBLEMS: Final = (400, 408, 413, 415, 422)

Responses = dict[int | str, dict[str, Any]]
C = TypeVar("C")
Endpoint = Callable[[C], Awaitable[Response]]
"""A call of the surface's gate in, an answer out."""


class WithBody(Protocol):
    """A call as far as its body goes."""

    @property
    def body(self) -> bytes: ...


def guarded(endpoint: Endpoint[C]) -> Endpoint[C]:
    """The endpoint, with everything that goes wrong in it answered as a problem."""

    async def answer(call: C) -> Response:
        try:
            return await endpoint(call)
        except RefusedError as error:
            return problem_response(error.problem)
        except OperatorError as error:
            _log.warning("request_unavailable", error=type(error).__name__, reason=str(error))
            return problem_response(unavailable())
        except Exception as error:  # noqa: BLE001  the last place that can answer
            # Class and place alone: a message may quote what the caller sent.
            _log.error("request_failed", error=type(error).__name__, place=_place(error))
            return problem_response(INTERNAL("The request failed. Send it again; if it fails again, report it."))

    return answer


def routed(endpoint: Endpoint[C]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint as FastAPI takes it."""
    safe = guarded(endpoint)

    async def route(request: Request) -> Response:
        call: C = request.scope[CALL]
        return await safe(call)

    return route


def json_body(call: WithBody) -> Any:
    """The body as Python values. Neither NaN nor Infinity, which JSON does not know."""
    try:
        return from_json(call.body, allow_inf_nan=False)
    except ValueError as error:
        raise RefusedError(MALFORMED_JSON(f"The body cannot be read as JSON: {error}. Correct it.")) from error


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """The body's model for OpenAPI, since the route reads the body itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(model)}}}}


def documented_responses(answers: dict[int, type[BaseModel]], *problems: int) -> Responses:
    """What a route answers, for OpenAPI: models by status, and the statuses of its problems."""
    documented: Responses = {status: {"model": model} for status, model in answers.items()}
    for status in sorted(set(problems)):
        documented[status] = {
            "description": "Problem (RFC 9457)",
            "content": {"application/problem+json": {"schema": _ref(ProblemAnswer)}},
        }
    return documented


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
