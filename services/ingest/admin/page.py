"""Lists in pages: an opaque cursor that holds the place behind which the next page begins."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar
from uuid import UUID

import orjson
from fastapi import Query
from starlette.responses import Response

from services.ingest.admin import problem
from shared.web.problem import RefusedError
from shared.web.response import json_response

T = TypeVar("T")
MAX_LIMIT: Final = 500

Cursor = Annotated[str | None, Query(max_length=1000, description="As the page before gave it.")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items in a page.")]


def place(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """What a cursor holds, one value of each kind; None for no cursor. RefusedError for one that is none of ours."""
    if cursor is None:
        return None
    try:
        values = orjson.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
    except (binascii.Error, ValueError) as error:
        raise _no_cursor() from error
    if not isinstance(values, list) or [type(value) for value in values] != list(kinds):
        raise _no_cursor()
    return tuple(values)


def place_id(cursor: str | None) -> UUID | None:
    """What the cursor of a list by id holds; RefusedError likewise."""
    found = place(cursor, str)
    try:
        return None if found is None else UUID(found[0])
    except ValueError as error:
        raise _no_cursor() from error


def page_response(
    items: Sequence[T], limit: int, body: Callable[[T], Mapping[str, Any]], key: Callable[[T], Sequence[Any]]
) -> Response:
    """The answer that is one page, as `page_body` has it."""
    return json_response(page_body(items, limit, body, key))


def page_body(
    items: Sequence[T], limit: int, body: Callable[[T], Mapping[str, Any]], key: Callable[[T], Sequence[Any]]
) -> dict[str, Any]:
    """`{"items": [...], "cursor": ...}`; a page that is not full is the last one."""
    cursor = None
    if len(items) == limit:
        cursor = base64.urlsafe_b64encode(orjson.dumps(list(key(items[-1])))).decode()
    return {"items": [body(item) for item in items], "cursor": cursor}


def _no_cursor() -> RefusedError:
    return RefusedError(problem.INVALID_CURSOR("Send the cursor as the page before gave it, or none.", "cursor"))
