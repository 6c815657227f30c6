"""The inbox and the reports of the app."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from services.me import problem
from services.me.endpoint import call_of, responses
from services.me.gate import NOTIFICATIONS_PATH, Call
from services.me.inbox import InboxReader, InvalidCursorError
from services.me.inbox_model import InboxAnswer, UnreadAnswer
from services.me.report import ReportKind, ReportStore
from shared.core.identifier import NOTIFICATION, InvalidIdError, parse_public_id
from shared.core.inbox import MAX_PAGE, EntryState, InboxStore, Shelf
from shared.web.endpoint import guarded
from shared.web.problem import INVALID_REQUEST, FieldError, RefusedError
from shared.web.response import json_response

_PAGE: Final = 20

FindUser = Callable[[str], Awaitable[int | None]]
"""`user_id` by external id; None for one we have never heard of, whose inbox is empty."""
Changed = Callable[[int], Awaitable[None]]
"""Tells the user's other apps that the count is another now."""


def inbox_surface(
    find_user: FindUser, reader: InboxReader, store: InboxStore, reports: ReportStore, changed: Changed
) -> APIRouter:
    """`/api/v1/me/notifications` and below. Whoever calls reaches their own inbox and no other."""
    router = APIRouter(tags=["inbox"])
    _reading(router, find_user, reader, store)
    _changing(router, find_user, store, changed)
    _reporting(router, find_user, store, reports, changed)
    return router


def _reading(router: APIRouter, find_user: FindUser, reader: InboxReader, store: InboxStore) -> None:
    @router.get(
        NOTIFICATIONS_PATH,
        operation_id="listNotifications",
        summary="The inbox, newest first",
        responses=responses({200: InboxAnswer}, 422),
    )
    async def page(
        request: Request,
        cursor: Annotated[str | None, Query(max_length=64)] = None,
        state: Annotated[Shelf, Query(description="inbox is all but the archived")] = Shelf.INBOX,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = _PAGE,
    ) -> Response:
        async def answer(call: Call) -> Response:
            user_id = await find_user(call.user)
            if user_id is None:
                return json_response({"items": [], "cursor": None, "unread": 0})
            try:
                found = await reader.page(user_id, state, cursor=cursor, limit=limit)
            except InvalidCursorError as error:
                raise RefusedError(INVALID_REQUEST(f"cursor: {error}.", errors=(FieldError("cursor"),))) from error
            return json_response(
                {"items": found.entries, "cursor": found.cursor, "unread": await store.unread(user_id)}
            )

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{NOTIFICATIONS_PATH}/unread-count",
        operation_id="countUnread",
        summary="How many are neither read nor archived",
        responses=responses({200: UnreadAnswer}),
    )
    async def unread(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            user_id = await find_user(call.user)
            return json_response({"unread": 0 if user_id is None else await store.unread(user_id)})

        return await guarded(answer)(call_of(request))


def _changing(router: APIRouter, find_user: FindUser, store: InboxStore, changed: Changed) -> None:
    @router.post(
        f"{NOTIFICATIONS_PATH}/read-all",
        operation_id="readAll",
        summary="Everything that is there now becomes read",
        responses=responses({200: UnreadAnswer}),
    )
    async def read_all(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            user_id = await find_user(call.user)
            if user_id is None:
                return json_response({"unread": 0})
            moment = datetime.now(UTC)
            if await store.read_all(user_id, until=moment, at=moment):
                await changed(user_id)
            return json_response({"unread": await store.unread(user_id)})

        return await guarded(answer)(call_of(request))

    def change(state: EntryState, summary: str) -> None:
        @router.post(
            f"{NOTIFICATIONS_PATH}/{{id}}/{state}",
            operation_id=f"mark{state.capitalize()}",
            summary=summary,
            responses=responses({200: UnreadAnswer}, 404, 422),
        )
        async def mark(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
            async def answer(call: Call) -> Response:
                notification_id, user_id = _id(text), await find_user(call.user)
                if user_id is None or not await store.change(user_id, notification_id, state, datetime.now(UTC)):
                    raise RefusedError(_NOT_YOURS)
                if state is not EntryState.SEEN:
                    await changed(user_id)
                return json_response({"unread": await store.unread(user_id)})

            return await guarded(answer)(call_of(request))

    change(EntryState.SEEN, "It was on the screen")
    change(EntryState.READ, "It was read")
    change(EntryState.ARCHIVED, "It is put away")


def _reporting(
    router: APIRouter, find_user: FindUser, store: InboxStore, reports: ReportStore, changed: Changed
) -> None:
    def report(kind: ReportKind, summary: str) -> None:
        @router.post(
            f"{NOTIFICATIONS_PATH}/{{id}}/{kind}",
            operation_id=f"report{kind.capitalize()}",
            summary=summary,
            status_code=204,
            responses=responses({}, 404, 422),
        )
        async def tell(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
            async def answer(call: Call) -> Response:
                notification_id, user_id, moment = _id(text), await find_user(call.user), datetime.now(UTC)
                if user_id is None or not await reports.add(user_id, notification_id, kind, moment):
                    raise RefusedError(_NOT_YOURS)
                # Whoever opened the push has read it: its place in the inbox, if it has one, need not say new.
                if kind is ReportKind.OPENED and await store.change(user_id, notification_id, EntryState.READ, moment):
                    await changed(user_id)
                return Response(status_code=204)

            return await guarded(answer)(call_of(request))

    report(ReportKind.RECEIVED, "The device got it")
    report(ReportKind.OPENED, "The user opened it")


_NOT_YOURS: Final = problem.NOTIFICATION_NOT_FOUND(
    "You have no notification with this id. Use the ids of your inbox, or of a push's data."
)


def _id(text: str) -> UUID:
    try:
        return parse_public_id(NOTIFICATION, text)
    except InvalidIdError as error:
        raise RefusedError(problem.INVALID_ID(f"{error}.", "id")) from error
