"""`/internal/v1/notification-types`: what may be said, and the policy of each kind."""

from collections.abc import Mapping
from datetime import time, timedelta
from typing import Annotated, Any, Final, Literal

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
from shared.content.parameter import schema_problems
from shared.core.catalogue import CONTENT_WINDOW, NotificationType, default_fallback, default_quiet_hours
from shared.core.quiet_hours import QuietHours
from shared.core.type_definition import MAX_CONTENT_WINDOW, MAX_SPREAD, MAX_TTL, message_class, type_body, type_problems
from shared.postgres.notification_type import (
    NewType,
    StoredType,
    list_types,
    put_type,
    remove_type,
    stored_type,
)
from shared.postgres.template import lock_catalogue
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded
from shared.web.model import Answer, Body
from shared.web.problem import FieldError, RefusedError
from shared.web.response import json_response
from shared.wire.channel import DEFAULT_CHANNELS, Category, Promise

PATH: Final = "/internal/v1/notification-types"
KIND: Final = "notification_type"

TypeName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
Clock = Annotated[str, StringConstraints(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
ChannelName = Annotated[str, StringConstraints(min_length=1, max_length=16)]


def _seconds(duration: timedelta) -> int:
    return int(duration.total_seconds())


class QuietHoursBody(Body):
    """Local wall time of the recipient; over midnight where end is before start."""

    start: Clock = Field(examples=["22:00"])
    end: Clock = Field(examples=["09:00"])
    spread_seconds: int = Field(
        default=900, ge=0, le=_seconds(MAX_SPREAD), description="Over how long those who waited are released."
    )


class SmsBody(Body):
    max_segments: int | None = None
    overflow: Literal["warn", "refuse"] = "warn"


class TypeBody(Body):
    """The whole definition: what is left out is set to its default, not left as it was."""

    category: Literal["SECURITY", "TRANSACTIONAL", "MARKETING"]
    message_class: Literal["critical", "tx", "bulk", "low"] | None = Field(default=None, alias="class")
    channels: list[ChannelName] = Field(min_length=1, max_length=16, examples=[["PUSH", "EMAIL"]])
    ttl_seconds: int = Field(gt=0, le=_seconds(MAX_TTL), examples=[43200])
    promises: dict[ChannelName, Literal["AT_LEAST_ONCE", "AT_MOST_ONCE"]] = Field(default_factory=dict)
    sender: str | None = Field(default=None, max_length=64)
    retention_days: int = Field(default=90, ge=1, le=90)
    quiet_hours: QuietHoursBody | None = Field(
        default=None, description="null: none. Left out: the category's (22:00 to 09:00 for MARKETING, else none)."
    )
    content_window_seconds: int = Field(
        default=_seconds(CONTENT_WINDOW),
        ge=0,
        le=_seconds(MAX_CONTENT_WINDOW),
        description="The same businessKey again is one; 0: none.",
    )
    fallback: list[ChannelName] | None = Field(
        default=None, max_length=16, description="For want of a target, in order. Left out: the category's."
    )
    sms: SmsBody = Field(default_factory=SmsBody)
    parameters: dict[str, Any] | None = Field(default=None, description="JSON Schema (2020-12) of params.")
    sample: dict[str, Any] = Field(default_factory=dict, description="params that every template must render.")

    def named(self, name: str) -> NotificationType:
        """The type it means; ValueError for quiet hours that start when they end."""
        category = Category(self.category)
        return NotificationType(
            name=name,
            category=category,
            message_class=message_class(category, self.message_class),
            default_channels=tuple(self.channels),
            ttl=timedelta(seconds=self.ttl_seconds),
            promises={channel: Promise(promise) for channel, promise in self.promises.items()},
            sender_profile=self.sender,
            quiet_hours=self._quiet_hours(category),
            content_window=timedelta(seconds=self.content_window_seconds),
            fallback_channels=default_fallback(category) if self.fallback is None else tuple(self.fallback),
            max_sms_segments=self.sms.max_segments,
            refuse_sms_overflow=self.sms.overflow == "refuse",
            parameter_schema=self.parameters,
            sample=self.sample,
        )

    def _quiet_hours(self, category: Category) -> QuietHours | None:
        if "quiet_hours" not in self.model_fields_set:
            return default_quiet_hours(category)
        if self.quiet_hours is None:
            return None
        given = self.quiet_hours
        spread = timedelta(seconds=given.spread_seconds)
        return QuietHours(time.fromisoformat(given.start), time.fromisoformat(given.end), spread)


class TypeAnswer(Answer):
    """A type as it is. Its ETag is what a change must name."""

    type: str
    category: str
    message_class: str = Field(alias="class")
    channels: list[str]
    ttl_seconds: int
    promises: dict[str, str]
    sender: str | None
    retention_days: int
    quiet_hours: dict[str, Any] | None
    content_window_seconds: int
    fallback: list[str]
    sms: dict[str, Any]
    parameters: dict[str, Any] | None
    sample: dict[str, Any]


class TypesAnswer(Answer):
    items: list[TypeAnswer]
    cursor: str | None


def types_surface(administration: Administration) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _writing(router, administration)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listTypes",
        summary="Notification types by name",
        responses=responses({200: TypesAnswer}, 422),
    )
    async def page(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
        async def answer(_call: Call) -> Response:
            (after,) = place(cursor, str) or ("",)
            async with administration.reading() as connection:
                found = await list_types(connection, after=after, limit=limit)
            return page_response(found, limit, _body, lambda stored: (stored.definition.type.name,))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{type}}",
        operation_id="getType",
        summary="One type",
        responses=responses({200: TypeAnswer}, 404),
    )
    async def get(request: Request, name: Annotated[str, Path(alias="type")]) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                stored = await stored_type(connection, name)
            if stored is None:
                raise RefusedError(_none(name))
            return _answered(stored, 200)

        return await guarded(answer)(call_of(request))


def _writing(router: APIRouter, administration: Administration) -> None:
    @router.put(
        f"{PATH}/{{type}}",
        operation_id="putType",
        summary="Create a type, or change it as a whole",
        responses=responses({200: TypeAnswer, 201: TypeAnswer}, *BODY_PROBLEMS, 412, 428),
        openapi_extra=documented(TypeBody),
    )
    async def put(request: Request, name: Annotated[TypeName, Path(alias="type")]) -> Response:
        async def answer(call: Call) -> Response:
            new = _definition(name, valid_body(TypeBody, call))
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_type(change.connection, name)
                require_match(call, None if current is None else current.revision)
                try:
                    put = await put_type(change.connection, new)
                except ForeignKeyViolationError as error:
                    raise RefusedError(
                        problem.UNKNOWN_SENDER(f"There is no sender profile {new.type.sender_profile!r}.", "sender")
                    ) from error
                if put is not None:
                    await change.audit("created" if put.created else "updated", KIND, name, _changed(current, new))
                stored = await stored_type(change.connection, name)
            assert stored is not None
            return _answered(stored, 201 if current is None else 200)

        return await guarded(answer)(call_of(request))

    @router.delete(
        f"{PATH}/{{type}}",
        operation_id="deleteType",
        summary="Remove a type and its templates; what was accepted of it before is skipped as unknown_type",
        status_code=204,
        responses=responses({}, 404, 409, 412, 428),
    )
    async def delete(request: Request, name: Annotated[str, Path(alias="type")]) -> Response:
        async def answer(call: Call) -> Response:
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                current = await stored_type(change.connection, name)
                if current is None:
                    raise RefusedError(_none(name))
                require_match(call, current.revision)
                try:
                    await remove_type(change.connection, name)
                except ForeignKeyViolationError as error:
                    raise RefusedError(
                        problem.IN_USE(f"An event mapping makes {name} of events. Remove the mapping first.")
                    ) from error
                await change.audit("deleted", KIND, name)
            return Response(status_code=204)

        return await guarded(answer)(call_of(request))


def _definition(name: str, body: TypeBody) -> NewType:
    try:
        entry = body.named(name)
    except ValueError as error:
        raise RefusedError(problem.INVALID_DEFINITION(f"quietHours: {error}.", "quietHours")) from error
    found = [FieldError(wrong.field, wrong.message) for wrong in type_problems(entry, DEFAULT_CHANNELS)]
    found += [FieldError(f"parameters{wrong.path}", wrong.message) for wrong in schema_problems(body.parameters)]
    if found:
        detail = f"{found[0].path}: {found[0].detail}."
        raise RefusedError(problem.INVALID_DEFINITION(detail, errors=tuple(found)))
    return NewType(entry, body.retention_days)


def _changed(current: StoredType | None, new: NewType) -> Mapping[str, Any]:
    """Which fields are others now; a type holds no personal data, so their values may be told."""
    before = {} if current is None else _body(current)
    after = type_body(new.type, new.retention_days)
    return {name: value for name, value in after.items() if before.get(name) != value}


def _body(stored: StoredType) -> Mapping[str, Any]:
    return type_body(stored.definition.type, stored.definition.retention_days)


def _answered(stored: StoredType, status: int) -> Response:
    response = json_response(_body(stored), status)
    response.headers["etag"] = etag(stored.revision)
    return response


def _none(name: str) -> Any:
    return problem.NO_SUCH_THING(f"There is no notification type {name[:64]!r}. List them with GET {PATH}.", "type")
