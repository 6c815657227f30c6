"""`/internal/v1/api-keys`: who may call. A secret is told once, in the answer that makes it."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NoReturn
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from pydantic import AfterValidator, Field, StringConstraints
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.etag import etag, require_match
from services.ingest.admin.page import Cursor, Limit, page_response, place_id
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.core.identifier import API_KEY, InvalidIdError, parse_public_id, public_id
from shared.core.sealing import KeyRing
from shared.postgres.api_key import (
    AUDIT_KIND,
    BEFORE_ALL,
    InvalidEntryError,
    KeyTerms,
    Kind,
    Scope,
    StoredKey,
    allow_list,
    audit_detail,
    change_key,
    create_key,
    in_order,
    key_body,
    list_keys,
    new_secret,
    revoke_key,
    stored_key,
)
from shared.postgres.pool import Connection
from shared.runtime.keyring import RingSource
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import Answer, Body, Instant, Name
from shared.web.problem import INVALID_REQUEST, FieldError, RefusedError
from shared.web.response import json_response

PATH: Final = "/internal/v1/api-keys"

KeyId = Annotated[str, Path(alias="keyId", max_length=64)]
Scopes = Annotated[list[Annotated[Scope, Field(strict=False)]], Field(min_length=1, max_length=4)]
Address = Annotated[str, StringConstraints(min_length=3, max_length=320)]
AllowList = Annotated[
    list[Address],
    Field(
        max_length=1000, description="Team keys: e-mail addresses and numbers that it may reach. Only hashes are kept."
    ),
]
Rate = Annotated[int, Field(gt=0, le=1_000_000, description="Requests a second, of each ingest process.")]


class NewKeyBody(Body):
    name: Name = Field(description="What the key is for; shown in lists, refusals and the audit log.")
    application: Name = Field(description="Whose it is; created at its first key.")
    kind: Annotated[Kind, Field(strict=False)] = Field(
        default=Kind.LIVE, description="live sends; team reaches its allow-list alone; test is sent by a simulation."
    )
    scopes: Scopes = Field(default_factory=lambda: [Scope.NOTIFICATIONS])
    rate_per_second: Rate | None = None
    expires_at: Instant | None = Field(default=None, description="Left out: never.")
    allow_list: AllowList = Field(default_factory=list)


def _given(value: object) -> object:
    if value is None:
        raise ValueError("may be left out, but not null")
    return value


class KeyBody(Body):
    """What is to be another; null is no rate of its own, and no end. The allow-list is replaced as a whole."""

    name: Annotated[Name | None, AfterValidator(_given)] = None
    scopes: Annotated[Scopes | None, AfterValidator(_given)] = None
    rate_per_second: Rate | None = None
    expires_at: Instant | None = None
    allow_list: Annotated[AllowList | None, AfterValidator(_given)] = None


class KeyAnswer(Answer):
    id: str = Field(examples=["key_01kbapv8a4fevs0dqf3qx5kpkx"])
    application: str
    name: str
    kind: Literal["live", "team", "test"]
    scopes: list[str]
    rate_per_second: int | None
    allowed: int = Field(description="How many addresses its allow-list has.")
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewKeyAnswer(KeyAnswer):
    secret: str = Field(description="Told here and never again.")


class KeysAnswer(Answer):
    items: list[KeyAnswer]
    cursor: str | None


def api_keys_surface(administration: Administration, rings: RingSource, *, clock: Callable[[], datetime]) -> Surface:
    """Callers are remembered for seconds (`ULAK_INGEST_KEY_TTL_SEC`), and nobody is told of a change."""
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _creating(router, administration, rings, clock)
    _changing(router, administration, rings, clock)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listApiKeys",
        summary="API keys in the order in which they were made, without their secrets",
        responses=responses({200: KeysAnswer}, 422),
    )
    async def page(
        request: Request,
        application: Annotated[str | None, Query(max_length=64)] = None,
        cursor: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            after = place_id(cursor) or BEFORE_ALL
            async with administration.reading() as connection:
                found = await list_keys(connection, application=application, after=after, limit=limit)
            return page_response(found, limit, key_body, lambda stored: (str(stored.id),))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{keyId}}",
        operation_id="getApiKey",
        summary="One key, without its secret",
        responses=responses({200: KeyAnswer}, 404, 422),
    )
    async def get(request: Request, key_id: KeyId) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                return _answered(await _known(connection, _id(key_id)), 200)

        return await guarded(answer)(call_of(request))


def _creating(
    router: APIRouter, administration: Administration, rings: RingSource, clock: Callable[[], datetime]
) -> None:
    @router.post(
        PATH,
        operation_id="createApiKey",
        summary="Make a key; its secret is in this answer and never told again",
        status_code=201,
        responses=responses({201: NewKeyAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(NewKeyBody),
    )
    async def create(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(NewKeyBody, call)
            terms = KeyTerms(
                body.name,
                in_order(body.scopes),
                body.rate_per_second,
                _allowed(body.kind, body.allow_list, rings.ring),
                _ahead(body.expires_at, clock()),
            )
            secret = new_secret(body.kind)
            async with administration.changing(call) as change:
                stored = await create_key(change.connection, body.application, body.kind, terms, secret)
                await change.audit("created", AUDIT_KIND, public_id(API_KEY, stored.id), audit_detail(stored))
            return _answered(stored, 201, secret=secret.text)

        return await guarded(answer)(call_of(request))


def _changing(
    router: APIRouter, administration: Administration, rings: RingSource, clock: Callable[[], datetime]
) -> None:
    @router.patch(
        f"{PATH}/{{keyId}}",
        operation_id="patchApiKey",
        summary="Change what is named",
        responses=responses({200: KeyAnswer}, *BODY_PROBLEMS, 404, 412, 428),
        openapi_extra=documented(KeyBody),
    )
    async def patch(request: Request, key_id: KeyId) -> Response:
        async def answer(call: Call) -> Response:
            body, wanted = valid_body(KeyBody, call), _id(key_id)
            _ahead(body.expires_at, clock())
            async with administration.changing(call) as change:
                current = await _known(change.connection, wanted, to_change=True)
                require_match(call, current.revision)
                await change_key(change.connection, wanted, _terms(current, body, rings.ring))
                stored = await _known(change.connection, wanted)
                await change.audit("updated", AUDIT_KIND, public_id(API_KEY, wanted), audit_detail(stored))
            return _answered(stored, 200)

        return await guarded(answer)(call_of(request))

    @router.post(
        f"{PATH}/{{keyId}}/revoke",
        operation_id="revokeApiKey",
        summary="Make a key unusable, within seconds and for good; again changes nothing",
        responses=responses({200: KeyAnswer}, 404, 422),
    )
    async def revoke(request: Request, key_id: KeyId) -> Response:
        async def answer(call: Call) -> Response:
            wanted = _id(key_id)
            async with administration.changing(call) as change:
                await _known(change.connection, wanted)
                if await revoke_key(change.connection, wanted):
                    await change.audit("revoked", AUDIT_KIND, public_id(API_KEY, wanted))
                stored = await _known(change.connection, wanted)
            return _answered(stored, 200)

        return await guarded(answer)(call_of(request))


def _terms(current: StoredKey, body: KeyBody, ring: KeyRing) -> KeyTerms:
    """The key's terms with what a PATCH names."""
    terms, named = current.terms, body.model_fields_set
    return KeyTerms(
        terms.name if body.name is None else body.name,
        terms.scopes if body.scopes is None else in_order(body.scopes),
        body.rate_per_second if "rate_per_second" in named else terms.rate_per_second,
        terms.allow_list if body.allow_list is None else _allowed(current.kind, body.allow_list, ring),
        body.expires_at if "expires_at" in named else terms.expires_at,
    )


def _allowed(kind: Kind, addresses: list[str], ring: KeyRing) -> tuple[bytes, ...]:
    if addresses and kind is not Kind.TEAM:
        raise RefusedError(INVALID_REQUEST("allowList is for team keys: leave it out, or make one.", "allowList"))
    try:
        return allow_list(addresses, ring)
    except InvalidEntryError as error:
        wrong = FieldError(f"allowList.{error.position}", str(error))
        raise RefusedError(problem.INVALID_ADDRESS(f"{wrong.path}: {error}.", errors=(wrong,))) from error


def _ahead(moment: datetime | None, now: datetime) -> datetime | None:
    if moment is not None and moment <= now:
        raise RefusedError(INVALID_REQUEST("expiresAt is over: give a moment to come, or revoke the key.", "expiresAt"))
    return moment


def _id(text: str) -> UUID:
    try:
        return parse_public_id(API_KEY, text)
    except InvalidIdError as error:
        _refuse_unknown(error)


async def _known(connection: Connection, key_id: UUID, *, to_change: bool = False) -> StoredKey:
    stored = await stored_key(connection, key_id, to_change=to_change)
    if stored is None:
        _refuse_unknown(None)
    return stored


def _refuse_unknown(cause: InvalidIdError | None) -> NoReturn:
    raise RefusedError(problem.NO_SUCH_THING(f"There is no such key. List them with GET {PATH}.", "keyId")) from cause


def _answered(stored: StoredKey, status: int, **more: Any) -> Response:
    response = json_response(key_body(stored) | more, status)
    response.headers["etag"] = etag(stored.revision)
    return response
