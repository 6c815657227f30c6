"""A request's body as its model."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from services.ingest.gate import Call
from shared.web.endpoint import json_body
from shared.web.invalid import invalid_fields
from shared.web.problem import RefusedError

B = TypeVar("B", bound=BaseModel)


def valid_body(model: type[B], call: Call) -> B:
    """RefusedError names each field that is wrong, and never repeats a value."""
    try:
        return model.model_validate(json_body(call))
    except ValidationError as error:
        raise RefusedError(invalid_fields(error)) from error
