"""What every route of the internal API is made of, beyond what all surfaces share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from pydantic import BaseModel

from services.ingest.gate import Call
from shared.web.endpoint import CALL, Endpoint, Responses, documented_responses

_GATE: Final = (401, 403, 429, 503)


@dataclass(frozen=True, slots=True)
class Surface:
    """Routes for the application, and those of them that the gate answers directly."""

    router: APIRouter
    direct: Mapping[str, Endpoint[Call]]


def call_of(request: Request) -> Call:
    call: Call = request.scope[CALL]
    return call


def responses(answers: dict[int, type[BaseModel]], *problems: int) -> Responses:
    """As OpenAPI tells them, with the gate's refusals."""
    return documented_responses(answers, *problems, *_GATE)
