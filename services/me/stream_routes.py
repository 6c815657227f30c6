"""`POST /stream-tickets` with a token, then `GET /stream?ticket=` without one."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from redis.exceptions import RedisError
from starlette.responses import Response, StreamingResponse

from services.me import problem
from services.me.endpoint import call_of, responses, visit_of
from services.me.gate import STREAM_PATH, STREAM_TICKETS_PATH, Call, Visit
from services.me.inbox_model import TicketAnswer
from services.me.inbox_routes import FindUser
from services.me.stream import InboxStreams
from shared.redis_store.stream_ticket import TICKET_TTL_SEC, StreamTickets, Ticket
from shared.web.endpoint import guarded
from shared.web.problem import RefusedError, unavailable
from shared.web.response import json_response


def stream_surface(find_user: FindUser, tickets: StreamTickets, streams: InboxStreams) -> APIRouter:
    """Without Redis there are no tickets: 503, and apps read the inbox by asking."""
    router = APIRouter(tags=["inbox"])

    @router.post(
        STREAM_TICKETS_PATH,
        operation_id="issueStreamTicket",
        summary="A ticket for the stream, good once and for seconds",
        responses=responses({200: TicketAnswer}),
    )
    async def issue(request: Request) -> Response:
        async def answer(call: Call) -> Response:
            try:
                text = await tickets.issue(Ticket(call.user, call.token_expires_at))
            except RedisError as error:
                raise RefusedError(unavailable()) from error
            return json_response({"ticket": text, "expiresInSeconds": TICKET_TTL_SEC})

        return await guarded(answer)(call_of(request))

    @router.get(
        STREAM_PATH,
        operation_id="streamInbox",
        summary="News of the inbox as server-sent events",
        response_class=StreamingResponse,
        responses=responses({}, 403),
    )
    async def stream(
        request: Request,
        ticket: Annotated[str, Query(min_length=1, max_length=128)],
        last_event_id: Annotated[
            str | None, Query(alias="lastEventId", max_length=64, description="As the header Last-Event-ID.")
        ] = None,
    ) -> Response:
        async def answer(visit: Visit) -> Response:
            try:
                opened = await tickets.redeem(ticket)
            except RedisError as error:
                raise RefusedError(unavailable()) from error
            user_id = None if opened is None else await find_user(opened.user)
            if opened is None:
                raise RefusedError(_USED)
            if user_id is None:
                raise RefusedError(_NOBODY)
            if not streams.has_room(user_id):
                raise RefusedError(_TOO_MANY)
            last = visit.headers.get("last-event-id") or last_event_id
            return StreamingResponse(
                streams.events(user_id, opened.expires_at, last),
                media_type="text/event-stream",
                headers={"x-accel-buffering": "no"},  # nginx would hold events back
            )

        return await guarded(answer)(visit_of(request))

    return router


_USED: Final = problem.INVALID_TICKET(
    f"This ticket is unknown, used, or older than {TICKET_TTL_SEC} s. Get a new one at {STREAM_TICKETS_PATH}."
)
_NOBODY: Final = problem.INVALID_TICKET("This user has no inbox yet: nothing was ever sent to them. Come again later.")
_TOO_MANY: Final = problem.TOO_MANY_STREAMS(
    "This user has as many streams open as one may have here. Close one.", headers={"retry-after": "30"}
)
