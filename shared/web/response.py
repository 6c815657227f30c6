"""Answers as bytes."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from shared.web.problem import CONTENT_TYPE, Problem


def json_response(body: Mapping[str, Any], status: int = 200) -> Response:
    """A JSON answer; datetimes are written in RFC 3339."""
    return Response(orjson.dumps(body), status, media_type="application/json")


def problem_response(problem: Problem, *, close: bool = False) -> Response:
    """A refusal; `close` ends the connection after it, because the rest of a body is not wanted."""
    headers = dict(problem.headers)
    if close:
        headers["connection"] = "close"
    return Response(orjson.dumps(problem.body()), problem.status, headers=headers, media_type=CONTENT_TYPE)
