"""`/internal/v1/templates`: drafts, their publication, versions and the way back, and what they would say."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from services.ingest.admin import problem
from services.ingest.admin.body import valid_body
from services.ingest.admin.change import Administration
from services.ingest.admin.etag import require_match
from services.ingest.admin.page import Cursor, Limit, page_response, place
from services.ingest.admin.template_model import (
    DiffAnswer,
    NewTemplateBody,
    PreviewAnswer,
    PreviewBody,
    RollbackBody,
    TemplateAnswer,
    TemplateBody,
    TemplatesAnswer,
    TestSendAnswer,
    TestSendBody,
    checked_response,
    preview_response,
    template_body,
    template_response,
)
from services.ingest.admin.test_send import Trial, send_trial
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import Call
from shared.content.problem import RenderError
from shared.core.catalogue import NotificationType
from shared.core.identifier import NOTIFICATION, public_id
from shared.postgres.notification_type import stored_type
from shared.postgres.pool import Connection
from shared.postgres.template import (
    StoredTemplate,
    TemplateKey,
    TemplateState,
    list_templates,
    lock_catalogue,
    template_version,
)
from shared.publishing.difference import template_difference
from shared.publishing.error import (
    NoEarlierVersionError,
    NoSuchVersionError,
    NotADraftError,
    PublicationError,
    UnpublishableError,
)
from shared.publishing.preview import preview as preview_of
from shared.publishing.template import (
    KIND,
    Draft,
    discard_template,
    draft_template,
    publish_template,
    redraft_template,
    roll_back_template,
)
from shared.runtime.keyring import RingSource
from shared.runtime.settings import LocaleSettings
from shared.web.endpoint import BODY_PROBLEMS, Endpoint, documented, guarded
from shared.web.problem import FieldError, Problem, RefusedError
from shared.web.response import json_response
from shared.wire.channel import DEFAULT_CHANNELS

PATH: Final = "/internal/v1/templates"
_VERSION_PATH: Final = f"{PATH}/{{type}}/{{channel}}/{{locale}}/versions/{{version}}"

TypeName = Annotated[str, Path(alias="type", max_length=64)]
Channel = Annotated[str, Path(max_length=16)]
LocaleName = Annotated[str, Path(max_length=16)]
Version = Annotated[int, Path(ge=1)]


def templates_surface(
    administration: Administration, rings: RingSource, defaults: LocaleSettings, *, clock: Callable[[], datetime]
) -> Surface:
    router = APIRouter(tags=["administration"])
    _reading(router, administration)
    _drafting(router, administration, defaults)
    _using(router, administration, defaults)
    _trying(router, administration, rings, defaults, clock)
    return Surface(router, {})


def _reading(router: APIRouter, administration: Administration) -> None:
    @router.get(
        PATH,
        operation_id="listTemplates",
        summary="Versions of templates, by type, channel, locale and version",
        responses=responses({200: TemplatesAnswer}, 422),
    )
    async def page(
        request: Request,
        cursor: Cursor = None,
        limit: Limit = 100,
        type_name: Annotated[str | None, Query(alias="type", max_length=64)] = None,
        channel: Annotated[str | None, Query(max_length=16)] = None,
        locale: Annotated[str | None, Query(max_length=16)] = None,
        state: Annotated[TemplateState | None, Query()] = None,
        active: Annotated[bool | None, Query()] = None,
    ) -> Response:
        async def answer(_call: Call) -> Response:
            after = place(cursor, str, str, str, int)
            async with administration.reading() as connection:
                found = await list_templates(
                    connection,
                    after=None if after is None else (TemplateKey(*after[:3]), after[3]),
                    limit=limit,
                    type_name=type_name,
                    channel=channel,
                    locale=locale,
                    state=state,
                    active=active,
                )
            return page_response(found, limit, template_body, _place)

        return await guarded(answer)(call_of(request))

    @router.get(
        _VERSION_PATH,
        operation_id="getTemplate",
        summary="One version",
        responses=responses({200: TemplateAnswer}, 404),
    )
    async def get(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(_call: Call) -> Response:
            async with administration.reading() as connection:
                stored = await _stored(connection, TemplateKey(type_name, channel, locale), version)
            return template_response(stored, 200)

        return await guarded(answer)(call_of(request))


def _drafting(router: APIRouter, administration: Administration, defaults: LocaleSettings) -> None:
    @router.post(
        PATH,
        operation_id="draftTemplate",
        summary="The next version of a template, as a draft",
        status_code=201,
        responses=responses({201: TemplateAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(NewTemplateBody),
    )
    async def draft(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(NewTemplateBody, call)
            if body.channel not in DEFAULT_CHANNELS:
                names = ", ".join(DEFAULT_CHANNELS.names)
                raise RefusedError(problem.INVALID_DEFINITION(f"channel: there is {names}.", "channel"))
            key = TemplateKey(body.type, body.channel, body.locale)
            async with administration.changing_catalogue(call) as change:
                entry = await _type(change.connection, body.type, "type")
                checked = await draft_template(
                    change.connection,
                    entry,
                    Draft(key, body.parts, body.options),
                    change.actor,
                    profile=defaults.marketing_profile,
                )
            return checked_response(checked, 201)

        return await guarded(answer)(call_of(request))

    @router.put(
        _VERSION_PATH,
        operation_id="changeDraft",
        summary="Change a draft",
        responses=responses({200: TemplateAnswer}, *BODY_PROBLEMS, 404, 409, 412, 428),
        openapi_extra=documented(TemplateBody),
    )
    async def put(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(call: Call) -> Response:
            body, key = valid_body(TemplateBody, call), TemplateKey(type_name, channel, locale)
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                stored = await _stored(change.connection, key, version)
                require_match(call, stored.revision)
                entry = await _type(change.connection, type_name)
                checked = await redraft_template(
                    change.connection,
                    entry,
                    Draft(key, body.parts, body.options),
                    version,
                    change.actor,
                    profile=defaults.marketing_profile,
                )
            return checked_response(checked, 200)

        return await guarded(_publishing(answer))(call_of(request))

    @router.delete(
        _VERSION_PATH,
        operation_id="discardDraft",
        summary="Throw a draft away",
        status_code=204,
        responses=responses({}, 404, 409, 412, 428),
    )
    async def delete(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(call: Call) -> Response:
            key = TemplateKey(type_name, channel, locale)
            async with administration.changing_catalogue(call) as change:
                await lock_catalogue(change.connection)
                stored = await _stored(change.connection, key, version)
                require_match(call, stored.revision)
                await discard_template(change.connection, key, version, change.actor)
            return Response(status_code=204)

        return await guarded(_publishing(answer))(call_of(request))


def _using(router: APIRouter, administration: Administration, defaults: LocaleSettings) -> None:
    @router.post(
        f"{_VERSION_PATH}/publish",
        operation_id="publishTemplate",
        summary="Make a draft what new notifications say; it never changes again",
        responses=responses({200: TemplateAnswer}, 404, 409, 422),
    )
    async def publish(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(call: Call) -> Response:
            key = TemplateKey(type_name, channel, locale)
            async with administration.changing_catalogue(call) as change:
                await _stored(change.connection, key, version)
                entry = await _type(change.connection, type_name)
                checked = await publish_template(
                    change.connection, entry, key, version, change.actor, profile=defaults.marketing_profile
                )
            return checked_response(checked, 200)

        return await guarded(_publishing(answer))(call_of(request))

    @router.post(
        f"{PATH}/{{type}}/{{channel}}/{{locale}}/rollback",
        operation_id="rollBackTemplate",
        summary="Make an earlier version active again",
        responses=responses({200: TemplateAnswer}, *BODY_PROBLEMS, 404, 409),
        openapi_extra=documented(RollbackBody),
    )
    async def roll_back(request: Request, type_name: TypeName, channel: Channel, locale: LocaleName) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(RollbackBody, call)
            key = TemplateKey(type_name, channel, locale)
            async with administration.changing_catalogue(call) as change:
                stored = await roll_back_template(change.connection, key, body.version, change.actor)
            return template_response(stored, 200)

        return await guarded(_publishing(answer))(call_of(request))


def _trying(
    router: APIRouter,
    administration: Administration,
    rings: RingSource,
    defaults: LocaleSettings,
    clock: Callable[[], datetime],
) -> None:
    @router.post(
        f"{_VERSION_PATH}/preview",
        operation_id="previewTemplate",
        summary="What a version says, with given params or the type's sample; nothing is stored",
        responses=responses({200: PreviewAnswer}, *BODY_PROBLEMS, 404),
        openapi_extra=documented(PreviewBody),
    )
    async def preview(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(PreviewBody, call)
            async with administration.reading() as connection:
                stored = await _stored(connection, TemplateKey(type_name, channel, locale), version)
                entry = await _type(connection, type_name)
            try:
                seen = preview_of(
                    stored, entry, body.params, zone=defaults.time_zone, profile=defaults.marketing_profile
                )
            except RenderError as error:
                raise _unrenderable(error) from error
            return preview_response(seen)

        return await guarded(answer)(call_of(request))

    @router.post(
        f"{_VERSION_PATH}/test-send",
        operation_id="testSendTemplate",
        summary="Send a version to a user who looks at it, marked as a test",
        status_code=202,
        responses=responses({202: TestSendAnswer}, *BODY_PROBLEMS, 404),
        openapi_extra=documented(TestSendBody),
    )
    async def test_send(
        request: Request, type_name: TypeName, channel: Channel, locale: LocaleName, version: Version
    ) -> Response:
        async def answer(call: Call) -> Response:
            body = valid_body(TestSendBody, call)
            async with administration.changing(call) as change:
                stored = await _stored(change.connection, TemplateKey(type_name, channel, locale), version)
                entry = await _type(change.connection, type_name)
                trial = Trial(stored, entry, body.params, str(body.user_id))
                try:
                    id_ = await send_trial(change, trial, call.caller, rings.ring, clock(), defaults.time_zone)
                except RenderError as error:
                    raise _unrenderable(error) from error
                await change.audit("test_sent", KIND, f"{stored.key} v{version}", {"notification": str(id_)})
            return json_response({"notificationId": public_id(NOTIFICATION, id_)}, 202)

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{PATH}/{{type}}/{{channel}}/{{locale}}/diff",
        operation_id="diffTemplates",
        summary="What changed between two versions",
        responses=responses({200: DiffAnswer}, 404, 422),
    )
    async def diff(
        request: Request,
        type_name: TypeName,
        channel: Channel,
        locale: LocaleName,
        older: Annotated[int, Query(alias="from", ge=1)],
        newer: Annotated[int, Query(alias="to", ge=1)],
    ) -> Response:
        async def answer(_call: Call) -> Response:
            key = TemplateKey(type_name, channel, locale)
            async with administration.reading() as connection:
                before, after = await _stored(connection, key, older), await _stored(connection, key, newer)
            return json_response({"diff": list(template_difference(before, after))})

        return await guarded(answer)(call_of(request))


def _publishing(endpoint: Endpoint[Call]) -> Endpoint[Call]:
    """The endpoint, with what keeps a template from use answered as a problem."""

    async def answer(call: Call) -> Response:
        try:
            return await endpoint(call)
        except PublicationError as error:
            raise RefusedError(_refusal(error)) from error

    return answer


def _refusal(error: PublicationError) -> Problem:
    detail = f"{str(error)[:1].upper()}{str(error)[1:]}."
    match error:
        case NoSuchVersionError():
            return problem.NO_SUCH_THING(detail, "version")
        case NotADraftError():
            return problem.NOT_A_DRAFT(detail)
        case NoEarlierVersionError():
            return problem.NOTHING_TO_ROLL_BACK(detail)
        case UnpublishableError():
            found = tuple(FieldError(wrong.part, wrong.message) for wrong in error.problems)
            return problem.UNPUBLISHABLE(detail, errors=found)
        case _:
            raise error


async def _stored(connection: Connection, key: TemplateKey, version: int) -> StoredTemplate:
    stored = await template_version(connection, key, version)
    if stored is None:
        raise RefusedError(problem.NO_SUCH_THING(f"There is no such version. List them with GET {PATH}.", "version"))
    return stored


def _unrenderable(error: RenderError) -> RefusedError:
    return RefusedError(problem.UNPUBLISHABLE(f"{error}.", "params"))


async def _type(connection: Connection, name: str, path: str | None = None) -> NotificationType:
    stored = await stored_type(connection, name)
    if stored is not None:
        return stored.definition.type
    if path is None:
        raise RefusedError(problem.NO_SUCH_THING("There is no such notification type.", "type"))
    raise RefusedError(problem.INVALID_DEFINITION("There is no such notification type: create it first.", path))


def _place(stored: StoredTemplate) -> tuple[str, str, str, int]:
    return (stored.key.type_name, stored.key.channel, stored.key.locale, stored.version)
