"""The internal API's calls. Each reads the gate's `Call`, asks one service, and answers.

Bodies are parsed here and not by FastAPI: the gate has read them already. The models still document every call.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from services.ingest import problem
from services.ingest.cancel import Canceller, Counts
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.explain import explain_body
from services.ingest.gate import BATCH_PATH, NOTIFICATIONS_PATH, OTP_PATH, Call
from services.ingest.intake import Accepted, NotificationIntake
from services.ingest.language import AcceptLanguage, Lang, chosen
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
)
from services.ingest.otp_intake import OtpIntake
from services.ingest.record import Event, NotificationReader, NotificationRecord, notification_body
from shared.core.identifier import NOTIFICATION, InvalidIdError, parse_public_id
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded, json_body, routed
from shared.web.problem import Problem, RefusedError
from shared.web.rate import RateLimiter
from shared.web.response import json_response, problem_response


def general_surface(
    intake: NotificationIntake, reader: NotificationReader, canceller: Canceller, limiter: RateLimiter
) -> Surface:
    """`/internal/v1/notifications` and below."""
    router = APIRouter(tags=["notifications"])

    async def accept(call: Call) -> Response:
        return _accepted(await intake.accept(json_body(call), call.caller, call.traceparent))

    async def accept_batch(call: Call) -> Response:
        items = _items(json_body(call))
        limiter.charge(call.caller.key_id, call.caller.rate_per_second, len(items) - 1)
        answers = await intake.accept_all(items, call.caller, call.traceparent)
        return json_response({"results": [_item_body(answer) for answer in answers]})

    router.post(
        NOTIFICATIONS_PATH,
        operation_id="acceptNotification",
        summary="Tell a user that something happened",
        status_code=202,
        responses=responses({202: AcceptedAnswer, 200: AcceptedAnswer}, *BODY_PROBLEMS, 409),
        openapi_extra=documented(NotificationRequest),
    )(routed(accept))
    router.post(
        BATCH_PATH,
        operation_id="acceptNotifications",
        summary="Up to 1,000 notifications, each answered for itself",
        responses=responses({200: BatchAnswer}, *BODY_PROBLEMS),
        openapi_extra=documented(BatchRequest),
    )(routed(accept_batch))
    _reading(router, reader)
    _cancelling(router, canceller)
    return Surface(router, {NOTIFICATIONS_PATH: guarded(accept), BATCH_PATH: guarded(accept_batch)})


def otp_surface(intake: OtpIntake) -> Surface:
    """`/internal/v1/otp-messages` and below."""
    router = APIRouter(tags=["otp"])

    async def accept(call: Call) -> Response:
        return _accepted(await intake.accept(json_body(call), call.caller, call.traceparent))

    router.post(
        OTP_PATH,
        operation_id="acceptOtp",
        summary="Send a one-time password by SMS",
        status_code=202,
        responses=responses({202: AcceptedAnswer, 200: AcceptedAnswer}, *BODY_PROBLEMS, 409),
        openapi_extra=documented(OtpRequest),
    )(routed(accept))

    @router.get(
        f"{OTP_PATH}/{{requestId}}",
        operation_id="getOtp",
        summary="How far a code is, without the code",
        responses=responses({200: OtpAnswer}, 404),
    )
    async def state(request: Request, request_id: Annotated[str, Path(alias="requestId")]) -> Response:
        async def answer(call: Call) -> Response:
            found = await intake.state(request_id, call.caller)
            return problem_response(found) if isinstance(found, Problem) else json_response(found)

        return await guarded(answer)(call_of(request))

    return Surface(router, {OTP_PATH: guarded(accept)})


def _reading(router: APIRouter, reader: NotificationReader) -> None:
    @router.get(
        NOTIFICATIONS_PATH,
        operation_id="findNotification",
        summary="The notification of an event id",
        responses=responses({200: NotificationAnswer}, 404, 409, 422),
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

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{NOTIFICATIONS_PATH}/{{id}}",
        operation_id="getNotification",
        summary="Where a notification stands",
        responses=responses({200: NotificationAnswer}, 404, 422),
    )
    async def get(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            return await _notification(reader, await _read(reader, call, text))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{NOTIFICATIONS_PATH}/{{id}}/explain",
        operation_id="explainNotification",
        summary="Every decision and attempt in order, in words",
        responses=responses({200: ExplainAnswer}, 404, 422),
    )
    async def explain(
        request: Request,
        text: Annotated[str, Path(alias="id")],
        lang: Lang = None,
        accept_language: AcceptLanguage = None,
    ) -> Response:
        async def answer(call: Call) -> Response:
            record = await _read(reader, call, text)
            deliveries, log = await reader.deliveries(record.id), await reader.log(record.id)
            return json_response(explain_body(record, deliveries, log, chosen(lang, accept_language)))

        return await guarded(answer)(call_of(request))


def _cancelling(router: APIRouter, canceller: Canceller) -> None:
    @router.post(
        f"{NOTIFICATIONS_PATH}/{{id}}/cancel",
        operation_id="cancelNotification",
        summary="Stop what has not gone out yet",
        responses=responses({200: CancelAnswer}, 404, 409, 422),
    )
    async def cancel(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            counts = _stopped(await canceller.cancel(_id(text), call.caller.reads_application))
            return json_response(
                {"cancelled": counts.cancelled, "inFlight": counts.in_flight, "alreadyOut": counts.already_out}
            )

        return await guarded(answer)(call_of(request))


_NO_SUCH_NOTIFICATION: Final = problem.NOTIFICATION_NOT_FOUND(
    "There is no notification with this id for this API key's application. Check the id."
)


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
