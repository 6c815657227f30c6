"""The FastAPI application behind a gate, and its OpenAPI document."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from shared.runtime.fault import faults
from shared.web.invalid import invalid
from shared.web.model import ProblemAnswer
from shared.web.problem import METHOD_NOT_ALLOWED, NOT_FOUND
from shared.web.response import problem_response


def build_app(routers: Sequence[APIRouter], *, title: str, description: str) -> FastAPI:
    """The routes, which stand behind a gate. The document is not served: docs/openapi/ is reviewed."""
    api = FastAPI(
        title=title,
        version="1",
        description=description,
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


def openapi(
    api: FastAPI, *, bodies: Sequence[type[BaseModel]], security_schemes: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """The OpenAPI document of the given routes; `bodies` are the models of those that routes read themselves."""
    from fastapi.openapi.utils import get_openapi

    document: dict[str, Any] = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes
    )
    models: tuple[type[BaseModel], ...] = (*bodies, ProblemAnswer)
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    components = document.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"] = components | {
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": security_schemes,
    }
    document["security"] = [{name: []} for name in security_schemes]
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
    return problem_response(invalid(faults(error.errors(), skip=1)))  # its first step is `query` or `path`


async def _routing(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        headers = dict(error.headers or {})
        return problem_response(
            METHOD_NOT_ALLOWED(f"Use {headers.get('allow', headers.get('Allow', 'another method'))}.", headers=headers)
        )
    return problem_response(NOT_FOUND("There is nothing at this path on this surface. Check the URL."))
