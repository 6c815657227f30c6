"""`/internal/v1/sender-profiles`: who mails are from. Keys go in and never come out."""

from datetime import datetime
from typing import Annotated, Any, Final

from asyncpg import ForeignKeyViolationError
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
from shared.core.address import EmailAddress, Mailbox
from shared.core.ports import DkimKey, SenderProfile
from shared.core.sealing import KeyRing, SealError
from shared.core.sender import open_profile
from shared.postgres.pool import Connection
from shared.postgres.sender_profile import StoredSender, list_senders, put_sender, remove_sender, stored_sender
from shared.postgres.template import lock_catalogue
from shared.publishing.sender import (
    MAX_ADDRESS,
    MAX_KEY_BYTES,
    SELECTOR,
    InvalidSenderError,
    dkim_domain,
    dkim_key,
    sender_profile,
)
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import Answer, Body
from shared.web.problem import RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/sender-profiles"
KIND: Final = "sender_profile"

SenderName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
Address = Annotated[str, StringConstraints(min_length=1, max_length=MAX_ADDRESS)]


class DkimBody(Body):
    domain: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    selector: Annotated[str, StringConstraints(max_length=63, pattern=SELECTOR)]
    private_key: Annotated[str, StringConstraints(min_length=1, max_length=MAX_KEY_BYTES)] | None = Field(
        default=None, description="RSA, as PEM. Left out, the key that is known stays. Sealed, and never told."
    )


class SenderBody(Body):
    """The whole profile: what is left out is gone, but for the key."""

    sender: Address = Field(alias="from", examples=["Shop Orders <orders@shop.example>"])
    reply_to: Address | None = None
    return_path: Address | None = Field(default=None, description="The envelope's sender; left out, that of `from`.")
    dkim: DkimBody | None = Field(default=None, description="null: not signed by us.")


class DkimAnswer(Answer):
    domain: str
    selector: str


class SenderAnswer(Answer):
    """A profile. Its ETag is what a change must name."""

    name: str
    sender: str = Field(alias="from")
    reply_to: str | None
    return_path: str | None
    dkim: DkimAnswer | None
    updated_at: datetime


class SendersAnswer(Answer):
    items: list[SenderAnswer]
    cursor: str | None


def senders_surface(administration: Administration, rings: RingSource) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _writing(router, administration, rings)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listSenders",
        summary="Sender profiles by name, without their keys",
        responses=responses({200: SendersAnswer}, 422),
    )
    async def page(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(_call: Call) -> Response:
            (after,) = place(cursor, str) or ("",)
            async with administration.reading() as connection:
                found = await list_senders(connection, after=after, limit=limit)
            return page_response(found, limit, _body, lambda sender: (sender.stored.name,))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{name}}",
        operation_id="getSender",
        summary="One profile, without its key",
        responses=responses({200: SenderAnswer}, 404, 422),
    )
    async def get(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                return _answered(await _known(connection, name), 200)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration, rings: RingSource) -> None:
    @router.put(
        f"{PATH}/{{name}}",
        operation_id="putSender",
        summary="Create a profile, or change it as a whole",
        responses=responses({200: SenderAnswer, 201: SenderAnswer}, *BODY_PROBLEMS, 409, 412, 428),
        openapi_extra=documented(SenderBody),
    )
    async def put(request: Request, name: SenderName) -> Response:
        async def answer(call: Call) -> Response:
            body, ring = valid_body(SenderBody, call), rings.ring
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_sender(change.connection, name)
                require_match(call, None if current is None else current.revision)
                created = await put_sender(change.connection, name, _profile(body, current, ring), ring)
                if created is not None:
                    await change.audit("created" if created else "updated", KIND, name)
                stored = await _known(change.connection, name)
            return _answered(stored, 201 if current is None else 200)

        return await guarded(answer)(call_of(request))

    @router.delete(
        f"{PATH}/{{name}}",
        operation_id="deleteSender",
        summary="Remove a profile that no type names, with its key",
        status_code=204,
        responses=responses({}, 404, 409, 412, 422, 428),
    )
    async def delete(request: Request, name: Annotated[str, Path(max_length=64)]) -> Response:
        async def answer(call: Call) -> Response:
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                require_match(call, (await _known(change.connection, name)).revision)
                try:
                    await remove_sender(change.connection, name)
                except ForeignKeyViolationError as error:
                    raise RefusedError(
                        problem.IN_USE("A notification type's mails are from it. Give the type another sender first.")
                    ) from error
                await change.audit("deleted", KIND, name)
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))


def _profile(body: SenderBody, current: StoredSender | None, ring: KeyRing) -> SenderProfile:
    try:
        return sender_profile(body.sender, body.reply_to, body.return_path, _key(body.dkim, current, ring))
    except InvalidSenderError as error:
        raise RefusedError(problem.INVALID_DEFINITION(f"{error.place}: {error}.", error.place)) from error
    except SealError as error:
        raise RefusedError(
            problem.UNREADABLE("The key that is known is sealed under one that this key ring lacks: send it anew.")
        ) from error


def _key(body: DkimBody | None, current: StoredSender | None, ring: KeyRing) -> DkimKey | None:
    """The key that signs from now on: the given one, else the known one. Raises InvalidSenderError, a SealError."""
    if body is None:
        return None
    if body.private_key is not None:
        return dkim_key(body.domain, body.selector, body.private_key.encode(), place="dkim.privateKey")
    known = None if current is None else open_profile(current.stored, ring).dkim
    if known is None:
        raise InvalidSenderError("dkim.privateKey", "no key is known yet: send it as PEM")
    return DkimKey(dkim_domain(body.domain), body.selector, known.private_key)


async def _known(connection: Connection, name: str) -> StoredSender:
    stored = await stored_sender(connection, name)
    if stored is None:
        raise RefusedError(problem.NO_SUCH_THING(f"There is no such profile. List them with GET {PATH}.", "name"))
    return stored


def _body(sender: StoredSender) -> dict[str, Any]:
    profile, key = sender.stored.profile, sender.stored.dkim
    address = EmailAddress(profile.from_address, profile.from_address)
    return {
        "name": sender.stored.name,
        "from": str(Mailbox(profile.from_name, address)),
        "replyTo": profile.reply_to,
        "returnPath": profile.return_path,
        "dkim": None if key is None else {"domain": key.domain, "selector": key.selector},
        "updatedAt": sender.updated_at,
    }


def _answered(sender: StoredSender, status: int) -> Response:
    response = json_response(_body(sender), status)
    response.headers["etag"] = etag(sender.revision)
    return response
