"""`/internal/v1/emails` and below, for callers who have no database transaction to enqueue in."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from services.ingest import problem
from services.ingest.email_intake import EmailIntake
from services.ingest.email_model import EmailAcceptedAnswer, EmailAnswer, EmailBody, EmailExplainAnswer
from services.ingest.email_record import EmailReader, LedgerEmail, email_body, email_explain_body
from services.ingest.endpoint import Surface, call_of, responses
from services.ingest.gate import EMAILS_PATH, Call
from services.ingest.language import AcceptLanguage, Lang, chosen
from shared.core.identifier import EMAIL, InvalidIdError, parse_public_id
from shared.decision.email_row import TableEmail
from shared.web.endpoint import BODY_PROBLEMS, documented, guarded, json_body, routed
from shared.web.problem import Problem, RefusedError
from shared.web.response import json_response, problem_response

_NO_SUCH_EMAIL: Final = problem.EMAIL_NOT_FOUND(
    "There is no e-mail with this id for this API key's application. Check the id: a row of a service's own table is "
    "known here once the relay has taken it into the ledger (model B)."
)


def email_surface(intake: EmailIntake, reader: EmailReader) -> Surface:
    """Accepting an e-mail, and what became of it."""
    router = APIRouter(tags=["emails"])

    async def accept(call: Call) -> Response:
        answer = await intake.accept(json_body(call), call.caller, call.traceparent)
        if isinstance(answer, Problem):
            return problem_response(answer)
        return json_response(answer.body(), answer.status)

    router.post(
        EMAILS_PATH,
        operation_id="acceptEmail",
        summary="Send an e-mail to its recipients together",
        status_code=202,
        responses=responses({202: EmailAcceptedAnswer, 200: EmailAcceptedAnswer}, *BODY_PROBLEMS, 409),
        openapi_extra=documented(EmailBody),
    )(routed(accept))

    @router.get(
        f"{EMAILS_PATH}/{{id}}",
        operation_id="getEmail",
        summary="Where an e-mail stands, recipient by recipient",
        responses=responses({200: EmailAnswer}, 404, 422),
    )
    async def get(request: Request, text: Annotated[str, Path(alias="id")]) -> Response:
        async def answer(call: Call) -> Response:
            return json_response(email_body(await _read(reader, call, text)))

        return await guarded(answer)(call_of(request))

    @router.get(
        f"{EMAILS_PATH}/{{id}}/explain",
        operation_id="explainEmail",
        summary="What happened to an e-mail in order, in words",
        responses=responses({200: EmailExplainAnswer}, 404, 422),
    )
    async def explain(
        request: Request,
        text: Annotated[str, Path(alias="id")],
        lang: Lang = None,
        accept_language: AcceptLanguage = None,
    ) -> Response:
        async def answer(call: Call) -> Response:
            email = await _read(reader, call, text)
            log = await reader.log(email) if isinstance(email, LedgerEmail) else []
            return json_response(email_explain_body(email, log, chosen(lang, accept_language)))

        return await guarded(answer)(call_of(request))

    return Surface(router, {EMAILS_PATH: guarded(accept)})


async def _read(reader: EmailReader, call: Call, text: str) -> LedgerEmail | TableEmail:
    try:
        email_id = parse_public_id(EMAIL, text)
    except InvalidIdError as error:
        raise RefusedError(problem.INVALID_ID(f"{error}.", "id")) from error
    found = await reader.email(email_id, call.caller.reads_application)
    if found is None:
        raise RefusedError(_NO_SUCH_EMAIL)
    return found
