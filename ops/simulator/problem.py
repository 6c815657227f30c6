"""Refusals of the control API as problem documents (RFC 9457)."""

from collections.abc import Sequence
from http import HTTPStatus

import orjson
from pydantic import ValidationError

from ops.simulator.exchange import Reply
from shared.runtime.fault import faults


def problem(status: HTTPStatus, code: str, detail: str, errors: Sequence[dict[str, str]] = ()) -> Reply:
    """A refusal with a stable code and a sentence that says what to do."""
    value: dict[str, object] = {
        "type": f"urn:ulak:problem:{code.replace('_', '-')}",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
    }
    if errors:
        value["errors"] = list(errors)
    return Reply(status, (("content-type", "application/problem+json"),), orjson.dumps(value))


def invalid(error: ValidationError) -> Reply:
    """The fields of a body or a query that do not fit, each with its path."""
    errors = [fault._asdict() for fault in faults(error.errors(include_url=False, include_input=False))]
    detail = "; ".join(f"{item['path'] or 'body'}: {item['detail']}" for item in errors)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_request", detail, errors)
