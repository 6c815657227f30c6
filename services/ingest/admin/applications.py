"""`/internal/v1/applications`: who calls, and which CloudEvents sources are whose.

They are not removed: notifications, keys and what makes an event one are theirs.
"""

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from pydantic import Field, StringConstraints
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.etag import etag, require_match
from services.ingest.admin.page import Cursor, Limit, page_response, place
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.postgres.application import (
    Application,
    SourceTakenError,
    StoredApplication,
    list_applications,
    put_application,
    stored_application,
)
from shared.postgres.template import lock_catalogue
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import PRINTABLE, Answer, Body, Name
from shared.web.problem import RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/applications"
KIND: Final = "application"

Source = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=PRINTABLE)]


class ApplicationBody(Body):
    sources: list[Source] = Field(
        default_factory=list,
        max_length=100,
        description="CloudEvents `source` values that are this application; `*` is every one that nobody else names.",
        examples=[["urn:shop:orders"]],
    )


class ApplicationAnswer(Answer):
    """An application. Its ETag is what a change must name."""

    name: str
    sources: list[str]
    created_at: datetime


class ApplicationsAnswer(Answer):
    items: list[ApplicationAnswer]
    cursor: str | None


def applications_surface(administration: Administration) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _writing(router, administration)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listApplications",
        summary="Applications by name",
        responses=responses({200: ApplicationsAnswer}, 422),
    )
    async def page(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(_call: Call) -> Response:
            (after,) = place(cursor, str) or ("",)
            async with administration.reading() as connection:
                found = await list_applications(connection, after=after, limit=limit)
            return page_response(found, limit, _body, lambda stored: (stored.application.name,))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{name}}",
        operation_id="getApplication",
        summary="One application",
        responses=responses({200: ApplicationAnswer}, 404, 422),
    )
    async def get(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                stored = await stored_application(connection, name)
            if stored is None:
                raise RefusedError(
                    problem.NO_SUCH_THING(f"There is no such application. List them with GET {PATH}.", "name")
                )
            return _answered(stored, 200)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration) -> None:
    @router.put(
        f"{PATH}/{{name}}",
        operation_id="putApplication",
        summary="Create an application, or change whose sources are whose",
        responses=responses({200: ApplicationAnswer, 201: ApplicationAnswer}, *BODY_PROBLEMS, 409, 412, 428),
        openapi_extra=documented(ApplicationBody),
    )
    async def put(request: Request, name: Name) -> Response:
        async def answer(call: Call) -> Response:
            new = Application(name, tuple(dict.fromkeys(valid_body(ApplicationBody, call).sources)))
            async with administration.changing(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_application(change.connection, name)
                require_match(call, None if current is None else current.revision)
                try:
                    created = await put_application(change.connection, new)
                except SourceTakenError as error:
                    raise RefusedError(problem.IN_USE(f"sources: {error}.", "sources")) from error
                if created is not None:
                    action = "created" if created else "updated"
                    await change.audit(action, KIND, name, {"sources": list(new.sources)})
                stored = await stored_application(change.connection, name)
            assert stored is not None
            return _answered(stored, 201 if current is None else 200)

        return await guarded(answer)(call_of(request))


def _body(stored: StoredApplication) -> dict[str, Any]:
    return {
        "name": stored.application.name,
        "sources": list(stored.application.sources),
        "createdAt": stored.created_at,
    }


def _answered(stored: StoredApplication, status: int) -> Response:
    response = json_response(_body(stored), status)
    response.headers["etag"] = etag(stored.revision)
    return response
