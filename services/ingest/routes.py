"""The internal API's calls. Each reads the gate's `Call`, asks one service, and answers.

Bodies are parsed here and not by FastAPI: the gate has read them already. The models still document every call.
"""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.responses import Response

from services.ingest import problem
from services.ingest.cancel import Canceller, Counts
from services.ingest.explain import explain_body
from services.ingest.gate import BATCH_PATH, CALL, NOTIFICATIONS_PATH, OTP_PATH, Call, Endpoint
from services.ingest.intake import Accepted, NotificationIntake
from services.ingest.model import (
    MAX_BATCH_ITEMS,
    AcceptedAnswer,
    BatchAnswer,
    BatchRequest,
    CancelAnswer,
    ExplainAnswer,
    NotificationAnswer,
    NotificationRequest,
    OtpAnswer,
    OtpRequest,
    ProblemAnswer,
)
from services.ingest.otp_intake import OtpIntake
from services.ingest.problem import Problem, RefusedError
from services.ingest.rate import RateLimiter
from services.ingest.record import Event, NotificationReader, NotificationRecord, notification_body
from services.ingest.response import json_response, problem_response
from shared.core.identifier import NOTIFICATION, InvalidIdError, parse_public_id
from shared.postgres.errors import PostgresError
from shared.runtime.logs import get_logger

_log = get_logger(__name__)

Responses = dict[int | str, dict[str, Any]]

_GATE: Final = (401, 403, 429, 503)
_BODY: Final = (400, 408, 413, 415, 422)


@dataclass(frozen=True, slots=True)
class Surface:
    """Routes for the application, and those of them that the gate answers directly."""

    router: APIRouter
    direct: Mapping[str, Endpoint]


def general_surface(
    intake: NotificationIntake, reader: NotificationReader, canceller: Canceller, limiter: RateLimiter
) -> Surface:
    """`/internal/v1/notifications` and below."""
    router = APIRouter(tags=["notifications"])

    async def accept(call: Call) -> Response:
        return _accepted(await intake.accept(_json(call), call.caller, call.traceparent))

    async def accept_batch(call: Call) -> Response:
        items = _items(_json(call))
        limiter.charge(call.caller.key_id, call.caller.rate_per_second, len(items) - 1)
        answers = await intake.accept_all(items, call.caller, call.traceparent)
        return json_response({"results": [_item_body(answer) for answer in answers]})

    router.post(
        NOTIFICATIONS_PATH,
        operation_id="acceptNotification",
        summary="Tell a user that something happened",
        status_code=202,
        responses=_responses({202: AcceptedAnswer, 200: AcceptedAnswer}, *_BODY, 409),
        openapi_extra=_documented(NotificationRequest),
    )(_routed(accept))
    router.post(
        BATCH_PATH,
        operation_id="acceptNotifications",
        summary="Up to 1,000 notifications, each answered for itself",
        responses=_responses({200: BatchAnswer}, *_BODY),
        openapi_extra=_documented(BatchRequest),
    )(_routed(accept_batch))
    _reading(router, reader)
    _cancelling(router, canceller)
    return Surface(router, {NOTIFICATIONS_PATH: guarded(accept), BATCH_PATH: guarded(accept_batch)})


def otp_surface(intake: OtpIntake) -> Surface:
    """`/internal/v1/otp-messages` and below."""
    router = APIRouter(tags=["otp"])

    async def accept(call: Call) -> Response:
        return _accepted(await intake.accept(_json(call), call.caller, call.traceparent))

    router.post(
        OTP_PATH,
        operation_id="acceptOtp",
        summary="Send a one-time password by SMS",
        status_code=202,
        responses=_responses({202: AcceptedAnswer, 200: AcceptedAnswer}, *_BODY, 409),
        openapi_extra=_documented(OtpRequest),
    )(_routed(accept))

    @router.get(
        f"{OTP_PATH}/{{requestId}}",
        operation_id="getOtp",
        summary="How far a code is, without the code",
        responses=_responses({200: OtpAnswer}, 404),
    )
    async def state(request: Request, request_id: Annotated[str, Path(alias="requestId")]) -> Response:
        async def answer(call: Call) -> Response:
            found = await intake.state(request_id, call.caller)
            return problem_response(found) if isinstance(found, Problem) else json_response(found)

        return await guarded(answer)(_call(request))

    return Surface(router, {OTP_PATH: guarded(accept)})


def _reading(router: APIRouter, reader: NotificationReader) -> None:
    @router.get(
        NOTIFICATIONS_PATH,
        operation_id="findNotification",
        summary="The notification of an event id",
        responses=_responses({200: NotificationAnswer}, 404, 409, 422),
    )
    async def find(
        request: Request,
        event_id: Annotated[str, Query(alias="eventId")],
        type_name: Annotated[str | None, Query(alias="type")] = None,
    ) -> Response:
        async def answer(call: Call) -> Response:
            found = _only(await reader.of_event(call.caller.application_id, event_id, type_name))
            record = await reader.notification(found.notification_id, call.caller.application_id)
            return await _notification(reader, _present(record))

        return await guarded(answer)(_call(request))

    @router.get(
        f"{NOTIFICATIONS_PATH}/{{id}}",
        operation_id="getNotification",
        summary="Where a notification stands",
        responses=_responses({200: NotificationAnswer}, 404, 422),
    )
    async def get(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            return await _notification(reader, await _read(reader, call, text))

        return await guarded(answer)(_call(request))

    @router.get(
        f"{NOTIFICATIONS_PATH}/{{id}}/explain",
        operation_id="explainNotification",
        summary="Every decision and attempt in order, in words",
        responses=_responses({200: ExplainAnswer}, 404, 422),
    )
    async def explain(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            record = await _read(reader, call, text)
            deliveries = await reader.deliveries(record.id)
            return json_response(explain_body(record, deliveries, await reader.log(record.id)))

        return await guarded(answer)(_call(request))


def _cancelling(router: APIRouter, canceller: Canceller) -> None:
    @router.post(
        f"{NOTIFICATIONS_PATH}/{{id}}/cancel",
        operation_id="cancelNotification",
        summary="Stop what has not gone out yet",
        responses=_responses({200: CancelAnswer}, 404, 409, 422),
    )
    async def cancel(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            counts = _stopped(await canceller.cancel(_id(text), call.caller.reads_application))
            return json_response(
                {"cancelled": counts.cancelled, "inFlight": counts.in_flight, "alreadyOut": counts.already_out}
            )

        return await guarded(answer)(_call(request))


def guarded(endpoint: Endpoint) -> Endpoint:
    """The endpoint, with everything that goes wrong in it answered as a problem."""

    async def answer(call: Call) -> Response:
        try:
            return await endpoint(call)
        except RefusedError as error:
            return problem_response(error.problem)
        except PostgresError as error:
            _log.warning("request_unavailable", error=type(error).__name__, reason=str(error))
            return problem_response(problem.unavailable())
        except Exception as error:  # noqa: BLE001  the last place that can answer
            # Class and place alone: a message may quote what the caller sent.
            _log.error("request_failed", error=type(error).__name__, place=_place(error))
            return problem_response(
                problem.INTERNAL("The request failed. Send it again; if it fails again, report it.")
            )

    return answer


def _routed(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint as FastAPI takes it."""
    safe = guarded(endpoint)

    async def route(request: Request) -> Response:
        return await safe(_call(request))

    return route


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


_NO_SUCH_NOTIFICATION: Final = problem.NOTIFICATION_NOT_FOUND(
    "There is no notification with this id for this API key's application. Check the id."
)


def _call(request: Request) -> Call:
    call: Call = request.scope[CALL]
    return call


def _json(call: Call) -> Any:
    """The body as Python values. Neither NaN nor Infinity, which JSON does not know."""
    try:
        return from_json(call.body, allow_inf_nan=False)
    except ValueError as error:
        raise RefusedError(problem.MALFORMED_JSON(f"The body cannot be read as JSON: {error}. Correct it.")) from error


def _items(body: Any) -> list[Any]:
    """A batch's items. The items themselves are not looked at: each is answered for itself."""
    if not isinstance(body, dict) or not isinstance(body.get("items"), list):
        raise RefusedError(problem.INVALID_REQUEST('Send {"items": [...]}.', "items"))
    unknown = [name for name in body if name != "items"]
    if unknown:
        raise RefusedError(problem.INVALID_REQUEST("A batch has the field items only: remove the others.", *unknown))
    items: list[Any] = body["items"]
    if not items:
        raise RefusedError(problem.INVALID_REQUEST("The batch is empty: send at least one item.", "items"))
    if len(items) > MAX_BATCH_ITEMS:
        raise RefusedError(
            problem.BATCH_TOO_LARGE(
                f"{len(items)} items; a batch takes {MAX_BATCH_ITEMS}. None was accepted: split it.", "items"
            )
        )
    return items


def _id(text: str) -> Any:
    try:
        return parse_public_id(NOTIFICATION, text)
    except InvalidIdError as error:
        raise RefusedError(problem.INVALID_ID(f"{error}.", "id")) from error


async def _read(reader: NotificationReader, call: Call, text: str) -> NotificationRecord:
    return _present(await reader.notification(_id(text), call.caller.reads_application))


def _only(found: Sequence[Event]) -> Event:
    if not found:
        raise RefusedError(
            problem.EVENT_ID_EXPIRED(
                "This application has sent no such eventId, or it is older than what is kept "
                "(7 days, or a day after it expired)."
            )
        )
    if len(found) > 1:
        mappings = ", ".join(event.mapping for event in found)
        raise RefusedError(
            problem.EVENT_ID_AMBIGUOUS(
                f"It led to several notifications ({mappings}). Add &type= to choose one.", "type"
            )
        )
    return found[0]


def _stopped(counts: Counts | None) -> Counts:
    if counts is None:
        raise RefusedError(_NO_SUCH_NOTIFICATION)
    if not counts.stopped:
        raise RefusedError(
            problem.NOTHING_TO_CANCEL(
                f"It had nothing left to stop: {counts.already_out} of its deliveries are already out."
            )
        )
    return counts


def _present(record: NotificationRecord | None) -> NotificationRecord:
    if record is None:
        raise RefusedError(_NO_SUCH_NOTIFICATION)
    return record


async def _notification(reader: NotificationReader, record: NotificationRecord) -> Response:
    return json_response(notification_body(record, await reader.deliveries(record.id)))


def _accepted(answer: Accepted | Problem) -> Response:
    return problem_response(answer) if isinstance(answer, Problem) else json_response(answer.body(), answer.status)


def _item_body(answer: Accepted | Problem) -> dict[str, Any]:
    if isinstance(answer, Problem):
        return {"status": answer.status, "problem": answer.body()}
    return {"status": answer.status, **answer.body()}


def _documented(model: type[BaseModel]) -> dict[str, Any]:
    """The body's model for OpenAPI, since the route reads the body itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _ref(model)}}}}


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _responses(answers: dict[int, type[BaseModel]], *problems: int) -> Responses:
    documented: Responses = {status: {"model": model} for status, model in answers.items()}
    for status in sorted({*problems, *_GATE}):
        documented[status] = {
            "description": "Problem (RFC 9457)",
            "content": {"application/problem+json": {"schema": _ref(ProblemAnswer)}},
        }
    return documented
