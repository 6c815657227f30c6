"""What every route of the user's API is made of, beyond what all surfaces share."""

from typing import Final

from fastapi import Request
from pydantic import BaseModel

from services.me.gate import Call, Visit
from shared.web.endpoint import CALL, Responses, documented_responses

_GATE: Final = (401, 429, 503)


def call_of(request: Request) -> Call:
    call: Call = request.scope[CALL]
    return call


def visit_of(request: Request) -> Visit:
    visit: Visit = request.scope[CALL]
    return visit


def responses(answers: dict[int, type[BaseModel]], *problems: int) -> Responses:
    """As OpenAPI tells them, with the gate's refusals."""
    return documented_responses(answers, *problems, *_GATE)
