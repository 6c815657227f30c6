"""The ASGI application of one surface, and its OpenAPI document."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from services.ingest import problem
from services.ingest.model import BatchRequest, NotificationRequest, OtpRequest, ProblemAnswer
from services.ingest.problem import FieldError
from services.ingest.response import problem_response

TITLE: Final = "Ulak internal API"
_BY_HAND: Final = (NotificationRequest, BatchRequest, OtpRequest, ProblemAnswer)
"""Models that routes name by reference only (routes.py says why)."""


def build_api(routers: Sequence[APIRouter]) -> FastAPI:
    """The routes, which stand behind the gate. The document is not served: docs/openapi/ingest.json is reviewed."""
    api = FastAPI(
        title=TITLE,
        version="1",
        description="Accepts notifications and one-time passwords, and tells what became of them.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in routers:
        api.include_router(router)
    api.add_exception_handler(RequestValidationError, _invalid_query)
    api.add_exception_handler(HTTPException, _routing)
    return api


def openapi(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the given routes, with the bodies that routes read themselves."""
    from fastapi.openapi.utils import get_openapi

    document: dict[str, Any] = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes
    )
    _, definitions = models_json_schema(
        [(model, "validation") for model in _BY_HAND], ref_template="#/components/schemas/{model}"
    )
    components = document.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"] = components | {
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer", "description": "`ulak api-keys create`"}},
    }
    document["security"] = [{"apiKey": []}]
    for operations in document["paths"].values():
        for operation in operations.values():
            _replace_fastapi_error(operation)
    return document


def _replace_fastapi_error(operation: dict[str, Any]) -> None:
    """FastAPI documents its own 422, which is never answered here."""
    response = operation["responses"].get("422")
    if response is not None and "application/json" in response.get("content", {}):
        response["content"].pop("application/json")
        response["description"] = "Problem (RFC 9457)"
        response["content"].setdefault(
            "application/problem+json", {"schema": {"$ref": f"#/components/schemas/{ProblemAnswer.__name__}"}}
        )


async def _invalid_query(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = tuple(FieldError(str(item["loc"][-1]), item["msg"]) for item in error.errors())
    return problem_response(problem.INVALID_REQUEST(f"{errors[0].path}: {errors[0].detail}.", errors=errors))


async def _routing(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        return problem_response(
            problem.METHOD_NOT_ALLOWED(
                f"Use {headers.get('allow', headers.get('Allow', 'another method'))}.", headers=headers
            )
        )
    return problem_response(problem.NOT_FOUND("There is nothing at this path on this surface. Check the URL."))
