"""What pydantic finds wrong, told the same way at every edge: bodies, queries, lines, files, settings. Pure.

The field's path is the caller's own spelling with dots (`items.3.userId`, as `shared/core/email.py` writes `to.1`), and
the text says what to give instead. Neither holds a value: it may be an address, a code or a key.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

_OBJECT: Final = "give an object, its fields by name"
_LIST: Final = "give a list"
_TEXT: Final = "give a text"
_WHOLE: Final = "give a whole number"
_NUMBER: Final = "give a number"
_INSTANT: Final = "give an RFC 3339 time with its offset, like 2026-11-11T10:00:00+03:00"
_DATE: Final = "give a date, like 2026-11-11"
_CLOCK: Final = "give a time of day, like 22:00"
_SPAN: Final = "give a span of time"
_ID: Final = "give a UUID, like 0190b6f2-3c5e-7d4a-9f00-2a1b3c4d5e6f"
_URL: Final = "give a URL, like https://shop.example/"

_WORDS: Final[Mapping[str, str]] = {
    "missing": "this field is required: send it",
    "extra_forbidden": "this field is not known here: remove it or correct its name",
    **dict.fromkeys(("model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type"), _OBJECT),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), _LIST),
    **dict.fromkeys(("string_type", "bytes_type"), _TEXT),
    "string_unicode": "give text in UTF-8",
    "string_not_ascii": "give ASCII letters alone",
    "string_too_short": "give at least {min_length} characters",
    "string_too_long": "give at most {max_length} characters",
    "string_pattern_mismatch": "these characters, or their order, are not taken here: correct it",
    "bytes_too_short": "give at least {min_length} bytes",
    "bytes_too_long": "give at most {max_length} bytes",
    "too_short": "give at least {min_length} of them",
    "too_long": "give at most {max_length} of them",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), _WHOLE),
    "int_parsing_size": "give a smaller number",
    **dict.fromkeys(("float_type", "float_parsing", "finite_number", "decimal_type", "decimal_parsing"), _NUMBER),
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give at least {ge}",
    "less_than": "give less than {lt}",
    "less_than_equal": "give at most {le}",
    "multiple_of": "give a multiple of {multiple_of}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "give true or false"),
    "literal_error": "give one of {expected}",
    "enum": "give one of {expected}",
    **dict.fromkeys(("union_tag_invalid", "union_tag_not_found"), "say which kind it is"),
    "none_required": "leave it out",
    **dict.fromkeys(
        (
            "datetime_type",
            "datetime_parsing",
            "datetime_object_invalid",
            "datetime_from_date_parsing",
            "timezone_aware",
            "timezone_naive",
            "timezone_offset",
        ),
        _INSTANT,
    ),
    "datetime_past": "give a time that has passed",
    "datetime_future": "give a time that is to come",
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact", "date_past"), _DATE
    ),
    "date_future": _DATE,
    **dict.fromkeys(("time_type", "time_parsing"), _CLOCK),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), _SPAN),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version"), _ID),
    **dict.fromkeys(("url_type", "url_parsing", "url_syntax_violation", "url_too_long", "url_scheme"), _URL),
    **dict.fromkeys(("json_invalid", "json_type"), "give JSON"),
    **dict.fromkeys(("path_not_file", "path_not_directory"), "there is none at this path: correct it"),
}
"""By pydantic's name of the error, in whose own words a programmer is spoken to."""
_OTHERWISE: Final = "this is not taken here: correct it"

_FORM: Final[Mapping[str, str]] = {
    "userId": "give the user's id: a text of 1 to 128 characters, or a whole number",
    "eventId": "give 1 to 200 printable characters",
    "requestId": "give 1 to 200 printable characters",
    "idempotencyKey": "give 1 to 200 printable characters",
    "locale": "give a language tag, like tr or tr-TR",
    "code": "give 4 to 10 digits or letters",
    "purpose": "give 1 to 32 letters, digits, points, hyphens or underscores",
}
"""Of fields whose form pydantic knows as an expression or a union alone, by the field's name."""
_NAMED: Final = frozenset({"missing", "extra_forbidden"})
"""Errors that say it better than the form of the field."""
_OF_PYDANTIC: Final = frozenset(get_args(ErrorType))
_OWN_WORDS: Final = frozenset({"value_error", "assertion_error"})
"""Raised by our validators, or of a type of our own: the message is ours."""
_UNION_OF: Final = frozenset({"userId"})
"""Fields that are unions: what comes below them in pydantic's location is a member of the union, not the caller's."""
_TAGS: Final = ("constrained-", "function-", "[key]")
"""How pydantic's own steps of a location begin."""


class Fault(NamedTuple):
    """One field that is wrong: where it is ('' for the whole), and what to do."""

    path: str
    detail: str


def faults(errors: Iterable[ErrorDetails | Mapping[str, Any]], *, skip: int = 0) -> tuple[Fault, ...]:
    """`ValidationError.errors()` told, each path once. skip: leading steps of locations that are not the caller's."""
    told: dict[str, str] = {}
    for error in errors:
        steps = _steps(error["loc"][skip:])
        told[".".join(steps)] = _detail(error, steps)
    return tuple(Fault(path, detail) for path, detail in told.items())


def _steps(location: Sequence[str | int]) -> list[str]:
    steps: list[str] = []
    for step in location:
        if isinstance(step, str) and step.startswith(_TAGS):
            continue
        steps.append(str(step))
        if step in _UNION_OF:
            break
    return steps


def _detail(error: ErrorDetails | Mapping[str, Any], steps: Sequence[str]) -> str:
    kind: str = error["type"]
    if kind not in _NAMED:
        form = next((_FORM[step] for step in reversed(steps) if step in _FORM), None)
        if form is not None:
            return form
    if kind in _WORDS:
        return _WORDS[kind].format_map(error.get("ctx", {}))
    if kind in _OF_PYDANTIC and kind not in _OWN_WORDS:
        return _OTHERWISE
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
