"""`/internal/v1/recipients`: who is told, and by which addresses. There is no list: users are looked up."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, NoReturn, TypeVar

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.etag import etag, require_match
from services.ingest.admin.page import Cursor, Limit, page_response, place
from services.ingest.admin.recipient_model import (
    RecipientAnswer,
    RecipientBody,
    SearchAnswer,
    SearchBody,
    patched,
    recipient_body,
    whole,
)
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.address import target_key
from shared.core.sealing import KeyRing, SealError
from shared.postgres.pool import Connection
from shared.postgres.recipient_record import (
    NewRecipient,
    StoredRecipient,
    add_recipient,
    change_recipient,
    recipients_with,
    stored_recipient,
)
from shared.profile.recipient import read_email, read_phone
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import PRINTABLE
from shared.web.problem import INVALID_REQUEST, FieldError, Problem, RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/recipients"
USER_PATH: Final = f"{PATH}/{{userId}}"
KIND: Final = "recipient"

T = TypeVar("T")
_UNKNOWN: Final[Mapping[str, Any]] = {"email": None, "phone": None, "locale": None, "timeZone": None, "attributes": {}}

UserId = Annotated[str, Path(alias="userId", min_length=1, max_length=128, pattern=PRINTABLE)]


def recipients_surface(administration: Administration, rings: RingSource) -> Surface:
    """Recipients are read anew for each decision, so nobody is told of a change."""
    router = APIRouter(tags=["administration"])
    _reading(router, administration, rings)
    _writing(router, administration, rings)
    _searching(router, administration, rings)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration, rings: RingSource) -> None:
    @router.get(
        USER_PATH,
        operation_id="getRecipient",
        summary="One recipient, addresses masked",
        responses=responses({200: RecipientAnswer}, 404, 409, 422),
    )
    async def get(
        request: Request,
        user_id: UserId,
        reveal: Annotated[bool, Query(description="Addresses in the clear; the audit log tells who asked.")] = False,
    ) -> Response:
        async def answer(call: Call) -> Response:
            if not reveal:
                async with administration.reading() as connection:
                    return _answered(await known_recipient(connection, user_id), rings.ring, 200)
            async with administration.changing(call) as change:
                stored = await known_recipient(change.connection, user_id)
                await change.audit("revealed", KIND, audit_key(stored))
                try:
                    body = recipient_body(stored, rings.ring, reveal=True)
                except SealError as error:
                    _refuse_unreadable(error)
            return json_response(body)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration, rings: RingSource) -> None:
    @router.put(
        USER_PATH,
        operation_id="putRecipient",
        summary="Create a recipient, or change it as a whole: what is left out is not known any more",
        responses=responses({200: RecipientAnswer, 201: RecipientAnswer}, *BODY_PROBLEMS, 412, 428),
        openapi_extra=documented(RecipientBody),
    )
    async def put(request: Request, user_id: UserId) -> Response:
        async def answer(call: Call) -> Response:
            new = _whole(valid_body(RecipientBody, call))
            async with administration.changing(call) as change:
                stored = await add_recipient(change.connection, rings.ring, user_id, new)
                if stored is not None:
                    require_match(call, None)
                    await change.audit("created", KIND, audit_key(stored), _told(None, stored))
                    return _answered(stored, rings.ring, 201)
                current = await known_recipient(change.connection, user_id, to_change=True)
                require_match(call, current.revision)
                stored = await change_recipient(change.connection, rings.ring, user_id, new)
                await change.audit("updated", KIND, audit_key(stored), _told(current, stored))
            return _answered(stored, rings.ring, 200)

        return await guarded(answer)(call_of(request))

    @router.patch(
        USER_PATH,
        operation_id="patchRecipient",
        summary="Change what is named; null removes",
        responses=responses({200: RecipientAnswer}, *BODY_PROBLEMS, 404, 409, 412, 428),
        openapi_extra=documented(RecipientBody),
    )
    async def patch(request: Request, user_id: UserId) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(RecipientBody, call)
            said = _whole(body)
            async with administration.changing(call) as change:
                current = await known_recipient(change.connection, user_id, to_change=True)
                require_match(call, current.revision)
                try:
                    new = _checked(patched(current, body, said, rings.ring))
                except SealError as error:
                    _refuse_unreadable(error)
                stored = await change_recipient(change.connection, rings.ring, user_id, new)
                await change.audit("updated", KIND, audit_key(stored), _told(current, stored))
            return _answered(stored, rings.ring, 200)

        return await guarded(answer)(call_of(request))


def _searching(router: APIRouter, administration: Administration, rings: RingSource) -> None:
    @router.post(
        f"{PATH}/search",
        operation_id="searchRecipients",
        summary="Whose address it is, in all its ways of writing",
        responses=responses({200: SearchAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(SearchBody),
    )
    async def search(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(call: Call) -> Response:
            email_key, phone_key = _keys(valid_body(SearchBody, call), rings.ring)
            (after,) = place(cursor, int) or (0,)
            async with administration.reading() as connection:
                found = await recipients_with(connection, email_key, phone_key, after=after, limit=limit)
            return page_response(found, limit, lambda user: {"userId": user[1]}, lambda user: (user[0],))

        return await guarded(answer)(call_of(request))


async def known_recipient(connection: Connection, user_id: str, *, to_change: bool = False) -> StoredRecipient:
    stored = await stored_recipient(connection, user_id, to_change=to_change)
    if stored is None:
        raise RefusedError(no_recipient())
    return stored


def no_recipient() -> Problem:
    return problem.NO_SUCH_THING(f"There is no such recipient. Create it with PUT {USER_PATH}.", "userId")


def audit_key(stored: StoredRecipient) -> str:
    """What the audit log calls a recipient: our own number, because callers' ids may be addresses, and because
    nobody can tell whose it was once the recipient is erased.
    """
    return str(stored.user_id)


def _checked(value: T | FieldError) -> T:
    if isinstance(value, FieldError):
        raise _refused([value])
    return value


def _whole(body: RecipientBody) -> NewRecipient:
    said = whole(body)
    if isinstance(said, NewRecipient):
        return said
    raise _refused(said)


def _refused(wrong: Sequence[FieldError]) -> RefusedError:
    kind = problem.INVALID_ADDRESS if wrong[0].path in {"email", "phone"} else INVALID_REQUEST
    return RefusedError(kind(f"{'; '.join(f'{each.path}: {each.detail}' for each in wrong)}.", errors=tuple(wrong)))


def _keys(body: SearchBody, ring: KeyRing) -> tuple[bytes | None, bytes | None]:
    if (body.email is None) == (body.phone is None):
        raise RefusedError(INVALID_REQUEST("Send either email or phone.", "email", "phone"))
    email, phone = _checked(read_email(body.email)), _checked(read_phone(body.phone))
    return (
        None if email is None else target_key(ring, "EMAIL", email.canonical),
        None if phone is None else target_key(ring, "SMS", phone),
    )


def _told(before: StoredRecipient | None, after: StoredRecipient) -> dict[str, Any]:
    """Which fields are others now, and none of their values."""
    known = _UNKNOWN if before is None else _facts(before)
    return {"fields": [name for name, fact in _facts(after).items() if fact != known[name]]}


def _facts(stored: StoredRecipient) -> Mapping[str, Any]:
    return {
        "email": stored.email,
        "phone": stored.phone,
        "locale": stored.locale,
        "timeZone": stored.time_zone,
        "attributes": stored.attributes,
    }


def _answered(stored: StoredRecipient, ring: KeyRing, status: int) -> Response:
    response = json_response(recipient_body(stored, ring), status)
    response.headers["etag"] = etag(stored.revision)
    return response


def _refuse_unreadable(error: SealError) -> NoReturn:
    raise RefusedError(
        problem.UNREADABLE(
            "It is sealed under a key that this key ring does not have: add the key, or send the address anew."
        )
    ) from error
