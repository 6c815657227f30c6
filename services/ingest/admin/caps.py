"""`/internal/v1/frequency-caps`: how many a user gets of a category on a channel in a day. No cap: as many as asked."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.etag import etag, require_match
from services.ingest.admin.page import Cursor, Limit, page_response, place
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.catalogue import FrequencyCap
from shared.postgres.frequency_cap import StoredCap, list_caps, put_cap, remove_cap, stored_cap
from shared.postgres.pool import Connection
from shared.postgres.template import lock_catalogue
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import Answer, Body
from shared.web.problem import RefusedError
from shared.web.response import json_response
from shared.wire.channel import DEFAULT_CHANNELS, Category

PATH: Final = "/internal/v1/frequency-caps"
CAP_PATH: Final = f"{PATH}/{{category}}/{{channel}}"
KIND: Final = "frequency_cap"

Capped = Annotated[
    Literal["TRANSACTIONAL", "MARKETING"],
    Path(description="SECURITY is never capped: a code that does not come locks its owner out."),
]
Channel = Annotated[str, Path(max_length=16)]


class CapBody(Body):
    per_day: int = Field(ge=0, le=1000, description="By the user's own calendar; 0: none at all.")


class CapAnswer(Answer):
    """A cap. Its ETag is what a change must name."""

    category: str
    channel: str
    per_day: int
    updated_at: datetime


class CapsAnswer(Answer):
    items: list[CapAnswer]
    cursor: str | None


def caps_surface(administration: Administration) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _writing(router, administration)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listCaps",
        summary="Frequency caps by category and channel",
        responses=responses({200: CapsAnswer}, 422),
    )
    async def page(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(_call: Call) -> Response:
            category, channel = place(cursor, str, str) or ("", "")
            async with administration.reading() as connection:
                found = await list_caps(connection, after=(category, channel), limit=limit)
            return page_response(found, limit, _body, lambda stored: (stored.cap.category, stored.cap.channel))

        return await guarded(answer)(call_of(request))

    @router.get(
        CAP_PATH,
        operation_id="getCap",
        summary="One cap",
        responses=responses({200: CapAnswer}, 404, 422),
    )
    async def get(request: Request, category: Capped, channel: Channel) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                return _answered(await _known(connection, Category(category), channel), 200)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration) -> None:
    @router.put(
        CAP_PATH,
        operation_id="putCap",
        summary="Set a cap",
        responses=responses({200: CapAnswer, 201: CapAnswer}, *BODY_PROBLEMS, 412, 428),
        openapi_extra=documented(CapBody),
    )
    async def put(request: Request, category: Capped, channel: Channel) -> Response:
        async def answer(call: Call) -> Response:
            if channel not in DEFAULT_CHANNELS:
                names = ", ".join(DEFAULT_CHANNELS.names)
                raise RefusedError(problem.INVALID_DEFINITION(f"channel: there is {names}.", "channel"))
            new = FrequencyCap(Category(category), channel, valid_body(CapBody, call).per_day)
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_cap(change.connection, new.category, channel)
                require_match(call, None if current is None else current.revision)
                created = await put_cap(change.connection, new)
                if created is not None:
                    action = "created" if created else "updated"
                    await change.audit(action, KIND, _key(new.category, channel), {"perDay": new.per_day})
                stored = await _known(change.connection, new.category, channel)
            return _answered(stored, 201 if current is None else 200)

        return await guarded(answer)(call_of(request))

    @router.delete(
        CAP_PATH,
        operation_id="deleteCap",
        summary="Lift a cap",
        status_code=204,
        responses=responses({}, 404, 412, 422, 428),
    )
    async def delete(request: Request, category: Capped, channel: Channel) -> Response:
        async def answer(call: Call) -> Response:
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                require_match(call, (await _known(change.connection, Category(category), channel)).revision)
                await remove_cap(change.connection, Category(category), channel)
                await change.audit("deleted", KIND, _key(Category(category), channel))
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))


async def _known(connection: Connection, category: Category, channel: str) -> StoredCap:
    stored = await stored_cap(connection, category, channel)
    if stored is None:
        raise RefusedError(problem.NO_SUCH_THING(f"There is no such cap. List them with GET {PATH}.", "channel"))
    return stored


def _key(category: Category, channel: str) -> str:
    return f"{category}/{channel}"


def _body(stored: StoredCap) -> dict[str, Any]:
    return {
        "category": stored.cap.category,
        "channel": stored.cap.channel,
        "perDay": stored.cap.per_day,
        "updatedAt": stored.updated_at,
    }


def _answered(stored: StoredCap, status: int) -> Response:
    response = json_response(_body(stored), status)
    response.headers["etag"] = etag(stored.revision)
    return response
