"""What bodies and their fields are made of on every surface.

Unknown fields are refused. Types are strict: no "7" for 7, no 1 for true; times are RFC 3339 with an offset.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

_RFC3339: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
PRINTABLE: Final = r"^[^\u0000-\u001f\u007f]+$"
"""No control characters: ids end up in headers of providers and in log lines."""
_LONG: Final = 2**63


def _instant(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not _RFC3339.fullmatch(value):
        raise ValueError("give an RFC 3339 time with its offset, like 2026-11-11T10:00:00+03:00")
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("this time does not exist: give one like 2026-11-11T10:00:00+03:00") from error


def _decimal(value: str | int) -> str:
    return value if isinstance(value, str) else str(value)


Key = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PRINTABLE)]
UserId = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PRINTABLE)]
    | Annotated[int, Field(ge=-_LONG, lt=_LONG)],
    AfterValidator(_decimal),
]
Instant = Annotated[datetime, BeforeValidator(_instant)]
Locale = Annotated[str, StringConstraints(max_length=16, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")]


class Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=False,
    )


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True)


class FieldErrorAnswer(Answer):
    path: str
    detail: str | None = None


class ProblemAnswer(Answer):
    """RFC 9457; `code` is stable, `detail` says what to do."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[FieldErrorAnswer] | None = None
