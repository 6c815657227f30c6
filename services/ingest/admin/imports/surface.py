"""`/internal/v1/imports`: many lines over one request, how far they are, and which were bad."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from services.ingest.admin.change import actor_of
from services.ingest.admin.imports.consents import ConsentsKind
from services.ingest.admin.imports.devices import DevicesKind
from services.ingest.admin.imports.importer import Importer
from services.ingest.admin.imports.kind import ImportKind
from services.ingest.admin.imports.lines import BrokenOffError, Limits, read_lines
from services.ingest.admin.imports.preferences import PreferencesKind
from services.ingest.admin.imports.recipients import RecipientsKind
from services.ingest.admin.imports.suppressions import SuppressionsKind
from services.ingest.admin.page import Cursor, Limit, page_response, place
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import IMPORTS_PATH, Call
from shared.core.identifier import IMPORT, InvalidIdError, parse_public_id, public_id
from shared.postgres.errors import UnavailableError
from shared.postgres.import_run import Run, RunState, bad_lines
from shared.web.body import NDJSON, refuse
from shared.web.endpoint import BODY_PROBLEMS, guarded
from shared.web.model import Answer
from shared.web.problem import INVALID_REQUEST, UNAVAILABLE, UNSUPPORTED_MEDIA_TYPE, RefusedError
from shared.web.response import json_response

KINDS: Final[Mapping[str, ImportKind[Any]]] = {
    kind.name: kind for kind in (RecipientsKind(), DevicesKind(), PreferencesKind(), ConsentsKind(), SuppressionsKind())
}
RUN_PATH: Final = f"{IMPORTS_PATH}/{{importId}}"
_LAST_LINE: Final = 10**15
"""No import has more; the database's numbers reach further."""
_HUNG_UP: Final = 499
"""What access logs call a caller who did not wait for the answer; nobody reads it."""

ImportId = Annotated[str, Path(alias="importId", max_length=64, examples=["imp_01kbapv8a4fevs0dqf3qx5kpkx"])]


class RunAnswer(Answer):
    """An import. Its next stream begins behind `lines`."""

    import_id: str
    kind: str
    state: RunState = Field(description="RUNNING until a body ends or it is aborted, also while nobody sends.")
    lines: int = Field(description="Settled lines. Blank ones are neither accepted nor rejected.")
    accepted: int
    rejected: int
    streaming: bool = Field(description="Whether a request is sending lines just now.")
    started_by: str
    created_at: datetime
    updated_at: datetime


class RunsAnswer(Answer):
    items: list[RunAnswer]
    cursor: str | None


class UnreadResponse(Response):
    """An answer to a body that was not read to its end: what still comes is let run out for a moment (`refuse`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await refuse(self, scope, receive, send)


def imports_surface(importer: Importer, limits: Limits) -> Surface:
    router = APIRouter(tags=["administration"])
    for kind in KINDS.values():
        _starting(router, importer, limits, kind)
    _going_on(router, importer, limits)
    _reading(router, importer)
    return Surface(router, {})


def _starting(router: APIRouter, importer: Importer, limits: Limits, kind: ImportKind[Any]) -> None:
    @router.post(
        f"{IMPORTS_PATH}/{kind.name}",
        operation_id=f"import{kind.name.capitalize()}",
        summary=f"Import {kind.name}, one a line. With `Content-Length: 0`: open a run, to send its lines to",
        responses=responses({200: RunAnswer, 201: RunAnswer}, *BODY_PROBLEMS, 409),
        openapi_extra=_streamed(kind.line),
    )
    async def start(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            gzipped, empty = _gzipped(call), call.header("content-length") == "0"
            if not empty:
                importer.require_room()  # before there is a run that nobody sends to
            run = await importer.start(kind.name, actor_of(call), call.caller.application_id)
            if empty:
                return _answered(run, 201)
            return await _stream(importer, limits, call, run, 1, gzipped=gzipped)

        return await _unread(answer, call_of(request))


def _going_on(router: APIRouter, importer: Importer, limits: Limits) -> None:
    @router.post(
        RUN_PATH,
        operation_id="resumeImport",
        summary="Send an import's lines from where it goes on",
        responses=responses({200: RunAnswer}, *BODY_PROBLEMS, 404, 409),
        openapi_extra=_streamed(None),
    )
    async def resume(
        request: Request,
        import_id: ImportId,
        from_line: Annotated[
            int, Query(alias="fromLine", ge=1, le=_LAST_LINE, description="One more than the run's `lines`.")
        ],
    ) -> Response:
        async def answer(call: Call) -> Response:
            gzipped = _gzipped(call)
            run = await importer.find(_id(import_id))
            return await _stream(importer, limits, call, run, from_line, gzipped=gzipped)

        return await _unread(answer, call_of(request))

    @router.post(
        f"{RUN_PATH}/abort",
        operation_id="abortImport",
        summary="End an import where it is: what was taken stays",
        responses=responses({200: RunAnswer}, 404, 409, 422),
    )
    async def abort(request: Request, import_id: ImportId) -> Response:
        async def answer(call: Call) -> Response:
            return _answered(await importer.abort(_id(import_id), actor_of(call)))

        return await guarded(answer)(call_of(request))


def _reading(router: APIRouter, importer: Importer) -> None:
    @router.get(
        IMPORTS_PATH,
        operation_id="listImports",
        summary="Imports, the newest first",
        responses=responses({200: RunsAnswer}, 422),
    )
    async def page(
        request: Request, state: RunState | None = None, cursor: Cursor = None, limit: Limit = 100
    ) -> Response:
        async def answer(_call: Call) -> Response:
            before = place(cursor, str)
            found = await importer.runs(before=None if before is None else _id(before[0]), state=state, limit=limit)
            return page_response(found, limit, _body, lambda run: (str(run.id),))

        return await guarded(answer)(call_of(request))

    @router.get(
        RUN_PATH,
        operation_id="getImport",
        summary="How far an import is",
        responses=responses({200: RunAnswer}, 404, 422),
    )
    async def get(request: Request, import_id: ImportId) -> Response:
        async def answer(_call: Call) -> Response:
            return _answered(await importer.find(_id(import_id)))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{RUN_PATH}/errors",
        operation_id="getImportErrors",
        summary="The bad lines as NDJSON: line, code, path and detail, never their values",
        responses=responses({}, 404, 422),
    )
    async def errors(
        request: Request,
        import_id: ImportId,
        after: Annotated[int, Query(ge=0, le=_LAST_LINE, description="Only lines behind this one.")] = 0,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            run = await importer.find(_id(import_id))
            return StreamingResponse(_lines(importer, run.id, after), media_type=NDJSON)

        return await guarded(answer)(call_of(request))


async def _stream(
    importer: Importer, limits: Limits, call: Call, run: Run, from_line: int, *, gzipped: bool
) -> Response:
    assert call.receive is not None
    lines = read_lines(call.receive, limits, gzipped=gzipped)
    try:
        ended = await importer.stream(run, KINDS[run.kind], actor_of(call), from_line, lines)
    except BrokenOffError:
        return Response(status_code=_HUNG_UP)
    except UnavailableError as error:
        detail = "The database cannot be used now. Ask this import how far it is, and send its lines from there."
        headers = {"retry-after": "1", "location": _location(run)}
        raise RefusedError(UNAVAILABLE(detail, headers=headers)) from error
    except RefusedError as error:
        headers = {**error.problem.headers, "location": _location(run)}
        raise RefusedError(replace(error.problem, headers=headers)) from error
    return _answered(ended)


async def _unread(endpoint: Callable[[Call], Awaitable[Response]], call: Call) -> Response:
    """The endpoint's answer; a refusal may leave some of the body unread."""
    response = await guarded(endpoint)(call)
    if response.status_code < 400:
        return response
    headers = {**response.headers, "connection": "close"}
    return UnreadResponse(response.body, response.status_code, headers)


async def _lines(importer: Importer, id_: UUID, after: int) -> AsyncIterator[bytes]:
    async for page in bad_lines(importer.pool, id_, after=after):
        yield b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in page)


def _gzipped(call: Call) -> bool:
    encoding = (call.header("content-encoding") or "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise RefusedError(UNSUPPORTED_MEDIA_TYPE("Send the lines plain, or with `Content-Encoding: gzip`."))
    return encoding == "gzip"


def _id(text: str) -> UUID:
    try:
        return parse_public_id(IMPORT, text)
    except InvalidIdError as error:
        raise RefusedError(INVALID_REQUEST(f"importId: {error}.", "importId")) from error


def _answered(run: Run, status: int = 200) -> Response:
    response = json_response(_body(run), status)
    response.headers["location"] = _location(run)
    return response


def _body(run: Run) -> Mapping[str, Any]:
    return {
        "importId": public_id(IMPORT, run.id),
        "kind": run.kind,
        "state": run.state,
        "lines": run.lines,
        "accepted": run.accepted,
        "rejected": run.rejected,
        "streaming": run.streaming,
        "startedBy": run.started_by,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
    }


def _location(run: Run) -> str:
    return f"{IMPORTS_PATH}/{public_id(IMPORT, run.id)}"


def _streamed(line: type[BaseModel] | None) -> dict[str, Any]:
    """The body for OpenAPI: one such object a line."""
    schema = {"type": "string"} if line is None else {"$ref": f"#/components/schemas/{line.__name__}"}
    return {"requestBody": {"content": {NDJSON: {"schema": schema}}}}
