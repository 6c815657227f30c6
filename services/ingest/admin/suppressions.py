"""`/internal/v1/suppressions`: who must not be written to. Addresses stand in bodies alone, never in a path."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, Field, StringConstraints
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.page import Cursor, Limit, page_response, place_id
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.address import InvalidAddressError, masked, parse_email, parse_phone
from shared.core.identifier import SUPPRESSION, public_id
from shared.core.sealing import KeyRing, SealError
from shared.postgres.suppression import (
    Added,
    NewSuppression,
    StoredSuppression,
    add_suppression,
    list_suppressions,
    remove_suppression,
)
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import PRINTABLE, Answer, Body, Instant
from shared.web.problem import INVALID_REQUEST, RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/suppressions"
KIND: Final = "suppression"
_ADDRESS: Final = re.compile(r"\S@\S|\d[\d ()-]{5,}\d")
"""What looks like an address or a number in a text that is kept where none may stand."""


def _impersonal(text: str) -> str:
    if _ADDRESS.search(text):
        raise ValueError("holds an address or a number: leave it out, the audit log keeps this text")
    return text


Channel = Literal["EMAIL", "SMS"]
Scope = Literal["ALL", "MARKETING"]
Address = Annotated[str, StringConstraints(min_length=3, max_length=320)]


class SuppressionBody(Body):
    channel: Channel
    address: Address = Field(examples=["ayse@example.com"])
    scope: Scope = Field(default="ALL", description="From everything, or from marketing alone.")
    note: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=PRINTABLE)] | None = None
    expires_at: Instant | None = Field(default=None, description="Left out: until it is removed.")


class RemovalBody(Body):
    channel: Channel
    address: Address
    scope: Scope
    reason: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE), AfterValidator(_impersonal)
    ] = Field(description="Why it may be written to again. Kept in the audit log: no addresses in it.")


class SuppressionAnswer(Answer):
    """The address is masked, and null where it is known by its keyed hash alone."""

    suppression_id: str = Field(examples=["sup_01kbapv8a4fevs0dqf3qx5kpkx"])
    channel: str
    address: str | None
    scope: Scope
    reason: str
    source: str = Field(description="bounce, complaint, stop, manual or import.")
    note: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None


class SuppressionsAnswer(Answer):
    items: list[SuppressionAnswer]
    cursor: str | None


def suppressions_surface(
    administration: Administration, rings: RingSource, *, clock: Callable[[], datetime]
) -> Surface:
    """They are read anew for each decision and each send, so nobody is told of a change."""
    router = APIRouter(tags=["administration"])
    _reading(router, administration, rings)
    _writing(router, administration, rings, clock)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration, rings: RingSource) -> None:
    @router.get(
        PATH,
        operation_id="listSuppressions",
        summary="Suppressed addresses, masked, the newest first",
        responses=responses({200: SuppressionsAnswer}, 422),
    )
    async def page(
        request: Request,
        channel: Annotated[str | None, Query(max_length=16)] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            before = place_id(cursor)
            async with administration.reading() as connection:
                found = await list_suppressions(connection, channel=channel, before=before, limit=limit)
            ring = rings.ring
            return page_response(found, limit, lambda stored: _body(stored, ring), lambda stored: (str(stored.id),))

        return await guarded(answer)(call_of(request))


def _writing(
    router: APIRouter, administration: Administration, rings: RingSource, clock: Callable[[], datetime]
) -> None:
    @router.post(
        PATH,
        operation_id="addSuppression",
        summary="Suppress an address; one that is suppressed already is prolonged, never shortened",
        status_code=201,
        responses=responses({200: SuppressionAnswer, 201: SuppressionAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(SuppressionBody),
    )
    async def add(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(SuppressionBody, call)
            if body.expires_at is not None and body.expires_at <= clock():
                raise RefusedError(INVALID_REQUEST("expiresAt is over: give a moment to come, or none.", "expiresAt"))
            canonical, shown = _canonical(body.channel, body.address)
            new = NewSuppression(
                body.channel, canonical, shown, body.scope, "manual", "manual", body.note, body.expires_at
            )
            async with administration.changing(call) as change:
                stored, added = await add_suppression(change.connection, rings.ring, new, created_by=change.actor.name)
                if added is not Added.UNCHANGED:
                    detail = {"channel": stored.channel, "scope": stored.scope, "expiresAt": stored.expires_at}
                    await change.audit(added, KIND, public_id(SUPPRESSION, stored.id), detail)
            return json_response(_body(stored, rings.ring), 201 if added is Added.CREATED else 200)

        return await guarded(answer)(call_of(request))

    @router.post(
        f"{PATH}/remove",
        operation_id="removeSuppression",
        summary="Let an address be written to again, and say why",
        status_code=204,
        responses=responses({}, *BODY_PROBLEMS, 404),
        openapi_extra=documented(RemovalBody),
    )
    async def remove(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(RemovalBody, call)
            canonical, _ = _canonical(body.channel, body.address)
            async with administration.changing(call) as change:
                removed = await remove_suppression(change.connection, rings.ring, body.channel, canonical, body.scope)
                if removed is None:
                    raise RefusedError(
                        problem.NO_SUCH_THING("This address is not suppressed in this scope. Try the other one.")
                    )
                detail = {"channel": body.channel, "scope": body.scope, "reason": body.reason}
                await change.audit("removed", KIND, public_id(SUPPRESSION, removed), detail)
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))


def _canonical(channel: Channel, address: str) -> tuple[str, str]:
    """What decides sameness, and the address as it is shown."""
    try:
        if channel == "EMAIL":
            email = parse_email(address)
            return email.canonical, email.text
        number = parse_phone(address)
    except InvalidAddressError as error:
        raise RefusedError(problem.INVALID_ADDRESS(f"address: {error}.", "address")) from error
    return number, number


def _body(stored: StoredSuppression, ring: KeyRing) -> dict[str, Any]:
    return {
        "suppressionId": public_id(SUPPRESSION, stored.id),
        "channel": stored.channel,
        "address": _shown(stored, ring),
        "scope": stored.scope,
        "reason": stored.reason,
        "source": stored.source,
        "note": stored.note,
        "createdBy": stored.created_by,
        "createdAt": stored.created_at,
        "expiresAt": stored.expires_at,
    }


def _shown(stored: StoredSuppression, ring: KeyRing) -> str | None:
    try:
        address = stored.address(ring)
    except SealError:  # under a key that this process does not have: it is listed all the same
        return None
    return None if address is None else masked(stored.channel, address)
