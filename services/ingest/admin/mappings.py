"""`/internal/v1/event-mappings`: how services' events become notifications."""

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
from shared.core.catalogue import EventMapping
from shared.postgres.event_mapping import StoredMapping, list_mappings, put_mapping, remove_mapping, stored_mapping
from shared.postgres.notification_type import stored_type
from shared.postgres.pool import Connection
from shared.postgres.template import active_templates, lock_catalogue
from shared.publishing.mapping import mapping_problems, missing_parameters
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import PRINTABLE, Answer, Body
from shared.web.problem import FieldError, RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/event-mappings"
KIND: Final = "event_mapping"

MappingName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
Expression = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Parameter = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PRINTABLE)]


class MappingBody(Body):
    """The whole mapping. Expressions are JMESPath over the whole event."""

    event: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE)] = Field(
        description="CloudEvents `type`.", examples=["OrderShipped"]
    )
    type: Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(examples=["ORDER_SHIPPED"])
    recipient: Expression = Field(description="Finds the user's id.", examples=["data.userId"])
    params: dict[Parameter, Expression] = Field(
        default_factory=dict,
        max_length=100,
        description="All that the type's templates need.",
        examples=[{"orderNo": "data.orderNo"}],
    )
    role: Annotated[str, StringConstraints(max_length=32, pattern=r"^[A-Za-z0-9_-]*$")] = Field(
        default="", description="Whom of several an event is told: one notification for each role."
    )
    business_key: Expression | None = None
    active: bool = Field(default=True, description="false: it is kept, and no event is read through it.")


class MappingAnswer(Answer):
    """A mapping. Its ETag is what a change must name."""

    name: str
    event: str
    type: str
    recipient: str
    params: dict[str, str]
    role: str
    business_key: str | None
    active: bool
    updated_at: datetime


class MappingsAnswer(Answer):
    items: list[MappingAnswer]
    cursor: str | None


def mappings_surface(administration: Administration) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _writing(router, administration)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listMappings",
        summary="Event mappings by name",
        responses=responses({200: MappingsAnswer}, 422),
    )
    async def page(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(_call: Call) -> Response:
            (after,) = place(cursor, str) or ("",)
            async with administration.reading() as connection:
                found = await list_mappings(connection, after=after, limit=limit)
            return page_response(found, limit, _body, lambda stored: (stored.mapping.name,))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{name}}",
        operation_id="getMapping",
        summary="One mapping",
        responses=responses({200: MappingAnswer}, 404, 422),
    )
    async def get(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                return _answered(await _known(connection, name), 200)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration) -> None:
    @router.put(
        f"{PATH}/{{name}}",
        operation_id="putMapping",
        summary="Create a mapping, or change it as a whole",
        responses=responses({200: MappingAnswer, 201: MappingAnswer}, *BODY_PROBLEMS, 412, 428),
        openapi_extra=documented(MappingBody),
    )
    async def put(request: Request, name: MappingName) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(MappingBody, call)
            new = EventMapping(name, body.event, body.type, body.role, body.recipient, body.params, body.business_key)
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_mapping(change.connection, name)
                require_match(call, None if current is None else current.revision)
                await _require_fit(change.connection, new)
                created = await put_mapping(change.connection, new, active=body.active)
                stored = await _known(change.connection, name)
                if created is not None:
                    detail = {"event": new.event_type, "type": new.notification_type, "active": body.active}
                    await change.audit("created" if created else "updated", KIND, name, detail)
            return _answered(stored, 201 if current is None else 200)

        return await guarded(answer)(call_of(request))

    @router.delete(
        f"{PATH}/{{name}}",
        operation_id="deleteMapping",
        summary="Remove a mapping: its events are no notification any more",
        status_code=204,
        responses=responses({}, 404, 412, 422, 428),
    )
    async def delete(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        async def answer(call: Call) -> Response:
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                require_match(call, (await _known(change.connection, name)).revision)
                await remove_mapping(change.connection, name)
                await change.audit("deleted", KIND, name)
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))


async def _require_fit(connection: Connection, new: EventMapping) -> None:
    """Refuse what no event could be read through, or what the type's active templates could not be rendered with."""
    found = [FieldError(wrong.field, wrong.message) for wrong in mapping_problems(new)]
    if await stored_type(connection, new.notification_type) is None:
        found.append(FieldError("type", "there is no such notification type: create it first"))
    active = [stored.renderable for stored in await active_templates(connection)]
    templates = [template for template in active if template.type_name == new.notification_type]
    found += [FieldError(wrong.field, wrong.message) for wrong in missing_parameters(new, templates)]
    if found:
        raise RefusedError(problem.INVALID_DEFINITION(f"{found[0].path}: {found[0].detail}.", errors=tuple(found)))


async def _known(connection: Connection, name: str) -> StoredMapping:
    stored = await stored_mapping(connection, name)
    if stored is None:
        raise RefusedError(problem.NO_SUCH_THING(f"There is no such mapping. List them with GET {PATH}.", "name"))
    return stored


def _body(stored: StoredMapping) -> dict[str, Any]:
    mapping = stored.mapping
    return {
        "name": mapping.name,
        "event": mapping.event_type,
        "type": mapping.notification_type,
        "recipient": mapping.recipient,
        "params": dict(mapping.params),
        "role": mapping.role,
        "businessKey": mapping.business_key,
        "active": stored.active,
        "updatedAt": stored.updated_at,
    }


def _answered(stored: StoredMapping, status: int) -> Response:
    response = json_response(_body(stored), status)
    response.headers["etag"] = etag(stored.revision)
    return response
