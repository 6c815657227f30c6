"""`/internal/v1/audit-log`: who changed what, and when. Written by every change itself; nothing changes it."""

from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from services.ingest.admin.change import Administration
from services.ingest.admin.page import Cursor, Limit, page_response, place_id
from services.ingest.admin.recipients import known_recipient
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.identifier import AUDIT, public_id
from shared.postgres.audit_log import AuditFilter, AuditLine, read_log
from shared.web.endpoint import guarded
from shared.web.model import Answer, Instant
from shared.web.problem import INVALID_REQUEST, RefusedError

PATH: Final = "/internal/v1/audit-log"


class AuditAnswer(Answer):
    """One change. Users stand in it by our own number of them, so that nobody can tell whose it was after erasure."""

    audit_id: str = Field(examples=["aud_01kbapv8a4fevs0dqf3qx5kpkx"])
    at: datetime
    actor: str = Field(examples=["api key backoffice of shop", "operator ayse"])
    action: str = Field(examples=["updated"])
    kind: str = Field(examples=["notification_type"])
    key: str = Field(examples=["ORDER_SHIPPED"])
    detail: dict[str, Any]


class AuditLogAnswer(Answer):
    items: list[AuditAnswer]
    cursor: str | None


def audit_log_surface(administration: Administration) -> Surface:
    router = APIRouter(tags=["administration"])

    @router.get(
        PATH,
        operation_id="readAuditLog",
        summary="Who changed what, the newest first",
        responses=responses({200: AuditLogAnswer}, 404, 422),
    )
    async def page(
        request: Request,
        kind: Annotated[str | None, Query(max_length=32)] = None,
        key: Annotated[str | None, Query(max_length=256)] = None,
        user_id: Annotated[
            str | None,
            Query(alias="userId", max_length=128, description="Instead of key: the number that stands for this user."),
        ] = None,
        actor: Annotated[str | None, Query(max_length=128)] = None,
        since: Annotated[Instant | None, Query(alias="from")] = None,
        until: Annotated[Instant | None, Query(alias="to", description="Before then.")] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            if user_id is not None and key is not None:
                raise RefusedError(INVALID_REQUEST("Ask for a key or for a userId, not both.", "userId"))
            before = place_id(cursor)
            async with administration.reading() as connection:
                named = key if user_id is None else str((await known_recipient(connection, user_id)).user_id)
                wanted = AuditFilter(kind, named, actor, since, until)
                found = await read_log(connection, wanted, before=before, limit=limit)
            return page_response(found, limit, _body, lambda line: (str(line.id),))

        return await guarded(answer)(call_of(request))

    return Surface(router, {})


def _body(line: AuditLine) -> dict[str, Any]:
    return {
        "auditId": public_id(AUDIT, line.id),
        "at": line.at,
        "actor": line.actor,
        "action": line.action,
        "kind": line.kind,
        "key": line.key,
        "detail": dict(line.detail),
    }
