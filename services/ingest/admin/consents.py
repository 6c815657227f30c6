"""`/internal/v1/consents`: the ledger of consents, told, looked into and exported."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from services.ingest.admin.change import actor_of
from services.ingest.admin.consent_line import ConsentBody, Entered, enter_consents, read_consent
from services.ingest.admin.page import Cursor, Limit, page_body, place_id
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import CONSENTS_PATH, Call
from shared.core.address import InvalidAddressError, masked, parse_email, parse_phone, target_key
from shared.core.identifier import CONSENT, InvalidIdError, parse_public_id, public_id
from shared.core.sealing import KeyRing, SealError
from shared.postgres.audit_log import record
from shared.postgres.consent import BEGINNING, Person, Recorded, find_people, pages, read_current, read_history
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded, json_body
from shared.web.model import Answer, Body
from shared.web.problem import INVALID_REQUEST, FieldError, ProblemKind, RefusedError
from shared.web.response import json_response

MAX_LINES: Final = 1000
NDJSON: Final = "application/x-ndjson"
TOO_MANY: Final = ProblemKind("too_many_lines", 413, "Too many lines at once")
_KIND: Final = "consent"


class ConsentsBody(Body):
    """One line by itself, or many as `items`."""

    items: list[ConsentBody] = Field(min_length=1, max_length=MAX_LINES)


class ConsentAnswer(Answer):
    """One line's fate, in the order of the request; `error` where it could not be taken."""

    consent_id: str | None = Field(default=None, examples=["cns_01kbapv8a4fevs0dqf3qx5kpkx"])
    recorded: bool = Field(description="false: its reference was known, or there is an error.")
    stands: bool = Field(description="Whether it is what counts now: a later word may be known already.")
    error: dict[str, str] | None = None


class ConsentsAnswer(Answer):
    items: list[ConsentAnswer]


class StateAnswer(Answer):
    channel: str
    purpose: str
    granted: bool
    at: datetime


class LineAnswer(Answer):
    """A line of the ledger. The address is masked; evidence is told by the export alone."""

    consent_id: str
    user_id: str | None
    address: str | None
    channel: str
    purpose: str
    granted: bool
    at: datetime
    recorded_at: datetime
    source: str
    wording_version: str | None
    recipient_kind: str
    reference: str | None
    recorded_by: str
    iys: str | None = Field(description="PENDING, SUBMITTED, ACCEPTED or REJECTED; null: the registry is not told.")


class HistoryAnswer(Answer):
    """What stands now, and how it came to be, the newest line first."""

    states: list[StateAnswer]
    items: list[LineAnswer]
    cursor: str | None


def consents_surface(pool: Pool, rings: RingSource, *, clock: Callable[[], datetime]) -> Surface:
    """Nobody remembers consents, so nobody is told of a change."""
    router = APIRouter(tags=["administration"])
    _telling(router, pool, rings, clock)
    _reading(router, pool, rings)
    _exporting(router, pool, rings)
    return Surface(router, {})


def _telling(router: APIRouter, pool: Pool, rings: RingSource, clock: Callable[[], datetime]) -> None:
    @router.post(
        CONSENTS_PATH,
        operation_id="recordConsents",
        summary="Append what people said: one line, or up to 1000 as items",
        responses=responses({200: ConsentsAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(ConsentsBody),
    )
    async def tell(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            body = json_body(call)
            alone = not (isinstance(body, dict) and "items" in body)
            items = [body] if alone else _items(body)
            return json_response({"items": await _told(pool, rings.ring, call, items, clock(), alone=alone)})

        return await guarded(answer)(call_of(request))


def _items(body: dict[str, Any]) -> list[Any]:
    items = body["items"]
    unknown = sorted(set(body) - {"items"})
    if unknown:
        raise _refused(FieldError(unknown[0], "this field is not known here: remove it or correct its name"))
    if not isinstance(items, list) or not items:
        raise _refused(FieldError("items", f"send a list of 1 to {MAX_LINES} lines"))
    if len(items) > MAX_LINES:
        raise RefusedError(TOO_MANY(f"Send at most {MAX_LINES} lines at once; none of these was taken.", "items"))
    return items


async def _told(
    pool: Pool, ring: KeyRing, call: Call, items: Sequence[Any], now: datetime, *, alone: bool
) -> list[Mapping[str, Any]]:
    """An answer for each line. alone: what is wrong with the one line is the answer to all of the request."""
    read = [read_consent(item, now) for item in items]
    if alone and isinstance(read[0], tuple):
        raise _refused(*read[0])
    bodies = [body for body in read if isinstance(body, ConsentBody)]
    actor = actor_of(call)
    async with _transaction(pool) as connection:
        entered = iter(await enter_consents(connection, ring, bodies, recorded_by=actor.name))
        found = [body[0] if isinstance(body, tuple) else next(entered) for body in read]
        if alone and isinstance(found[0], FieldError):
            raise _refused(found[0])
        new = [line for line in found if isinstance(line, Entered) and line.recorded]
        if new:
            key = public_id(CONSENT, new[0].line.id)
            await record(connection, actor, "recorded", _KIND, key, {"lines": len(new)})
    return [_answered(line) for line in found]


@asynccontextmanager
async def _transaction(pool: Pool) -> AsyncIterator[Connection]:
    with translated():
        async with pool.acquire() as connection, connection.transaction():
            yield connection


def _answered(line: Entered | FieldError) -> Mapping[str, Any]:
    if isinstance(line, FieldError):
        return {"recorded": False, "stands": False, "error": {"path": line.path, "detail": line.detail}}
    told: dict[str, Any] = {"recorded": line.recorded, "stands": line.stands}
    return {"consentId": public_id(CONSENT, line.line.id), **told} if line.recorded else told


def _reading(router: APIRouter, pool: Pool, rings: RingSource) -> None:
    @router.get(
        CONSENTS_PATH,
        operation_id="getConsents",
        summary="What stands of a user or an address, and all that was said",
        responses=responses({200: HistoryAnswer}, 422),
    )
    async def history(
        request: Request,
        user_id: Annotated[str | None, Query(alias="userId", max_length=128)] = None,
        address: Annotated[str | None, Query(max_length=320, description="An e-mail address or a number.")] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            ring = rings.ring
            before = place_id(cursor)
            async with _transaction(pool) as connection:
                person: Person | None = None
                if user_id is not None and address is None:
                    person = (await find_people(connection, [user_id])).get(user_id)
                    subjects = () if person is None else person.subjects(ring)
                elif address is not None and user_id is None:
                    subjects = (_address_key(ring, address),)
                else:
                    raise _refused(FieldError("userId", "ask for a userId or for an address, not both"))
                states = await read_current(connection, subjects)
                lines = await read_history(
                    connection,
                    subjects,
                    user_id=None if person is None else person.user_id,
                    before=before,
                    limit=limit,
                )
            standing = [
                {"channel": channel, "purpose": purpose, "granted": word.granted, "at": word.at}
                for (_, channel, purpose), word in states.items()
            ]
            page = page_body(lines, limit, lambda line: _shown(line, ring), lambda line: (str(line.id),))
            return json_response({"states": standing, **page})

        return await guarded(answer)(call_of(request))


def _address_key(ring: KeyRing, text: str) -> bytes:
    try:
        if "@" in text:
            return target_key(ring, "EMAIL", parse_email(text).canonical)
        return target_key(ring, "SMS", parse_phone(text))
    except InvalidAddressError as error:
        raise _refused(FieldError("address", str(error))) from error


def _exporting(router: APIRouter, pool: Pool, rings: RingSource) -> None:
    @router.get(
        f"{CONSENTS_PATH}/export",
        operation_id="exportConsents",
        summary="The whole ledger as NDJSON, in the order it was recorded in, with addresses and evidence",
        response_class=StreamingResponse,
        responses={**responses({}, 422), 200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
    )
    async def export(
        request: Request,
        after: Annotated[str | None, Query(max_length=64, description="Go on behind this consentId.")] = None,
    ) -> Response:
        async def answer(call: Call) -> Response:
            try:
                start = BEGINNING if after is None else parse_public_id(CONSENT, after)
            except InvalidIdError as error:
                raise _refused(FieldError("after", str(error))) from error
            async with _transaction(pool) as connection:
                await record(connection, actor_of(call), "exported", _KIND, after or "all")
            return StreamingResponse(_lines(pool, rings, start), media_type=NDJSON)

        return await guarded(answer)(call_of(request))


async def _lines(pool: Pool, rings: RingSource, after: UUID) -> AsyncIterator[bytes]:
    async for page in pages(pool, after=after):
        ring = rings.ring
        yield b"".join(orjson.dumps(line.body() | line.opened(ring), option=orjson.OPT_APPEND_NEWLINE) for line in page)


def _shown(line: Recorded, ring: KeyRing) -> Mapping[str, Any]:
    try:
        address = line.address(ring)
    except SealError:
        return {**line.body(), "address": None}
    return {**line.body(), "address": None if address is None else masked(line.channel, address)}


def _refused(*errors: FieldError) -> RefusedError:
    first = errors[0]
    return RefusedError(INVALID_REQUEST(f"{first.path or 'The body'}: {first.detail}.", errors=errors))
