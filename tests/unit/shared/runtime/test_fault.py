"""What pydantic finds wrong: the caller's path, and what to give instead."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from shared.runtime.fault import Fault, faults


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    userId: str | Annotated[int, Field(ge=0)] = 0  # noqa: N815  as callers spell it


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("give an even number")
    return value


def _rare(value: str) -> str:
    if value != "rare":
        raise PydanticCustomError("too_common", "say something rare")
    return value


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, Field(min_length=2, max_length=3)] = "ab"
    pattern: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    number: Annotated[int, Field(ge=1, le=9)] = 1
    even: Annotated[int, AfterValidator(_even)] = 2
    rare: Annotated[str, AfterValidator(_rare)] = "rare"
    switch: bool = True
    at: datetime | None = None
    kind: Literal["A", "B"] = "A"
    colour: Colour = Colour.RED
    many: Annotated[list[int], Field(min_length=1, max_length=2)] = [1]
    names: dict[Annotated[str, Field(max_length=2)], int] = {}
    inner: Inner = Inner()
    items: list[Inner] = []


def told(body: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate(body)
    found = faults(refused.value.errors(include_url=False, include_input=False))
    raw = {error["msg"] for error in refused.value.errors()}
    assert not raw & {fault.detail for fault in found}, "never in pydantic's own words"
    return list(found)


@pytest.mark.parametrize(
    ("body", "path", "detail"),
    [
        pytest.param([1], "", "give an object, its fields by name", id="no-object"),
        pytest.param({"txt": 1}, "txt", "this field is not known here: remove it or correct its name", id="unknown"),
        pytest.param({"text": 7}, "text", "give a text", id="number-for-text"),
        pytest.param({"text": "a"}, "text", "give at least 2 characters", id="short"),
        pytest.param({"text": "abcd"}, "text", "give at most 3 characters", id="long"),
        pytest.param(
            {"pattern": "A"}, "pattern", "these characters, or their order, are not taken here: correct it", id="form"
        ),
        pytest.param({"number": "7"}, "number", "give a whole number", id="text-for-number"),
        pytest.param({"number": 0}, "number", "give at least 1", id="small"),
        pytest.param({"number": 10}, "number", "give at most 9", id="large"),
        pytest.param({"even": 3}, "even", "give an even number", id="our-own-words"),
        pytest.param({"switch": "yes"}, "switch", "give true or false", id="switch"),
        pytest.param(
            {"at": 7}, "at", "give an RFC 3339 time with its offset, like 2026-11-11T10:00:00+03:00", id="time"
        ),
        pytest.param({"kind": "C"}, "kind", "give one of 'A' or 'B'", id="one-of"),
        pytest.param({"many": 1}, "many", "give a list", id="no-list"),
        pytest.param({"many": []}, "many", "give at least 1 of them", id="few"),
        pytest.param({"many": [1, 2, 3]}, "many", "give at most 2 of them", id="many"),
        pytest.param({"many": [1, "x"]}, "many.1", "give a whole number", id="entry"),
        pytest.param({"names": {"abc": 1}}, "names.abc", "give at most 2 characters", id="key"),
        pytest.param(
            {"items": [{}, {"userId": True}]},
            "items.1.userId",
            "give the user's id: a text of 1 to 128 characters, or a whole number",
            id="union-once",
        ),
    ],
)
def test_a_fault_is_told_by_the_callers_path_and_what_to_give(body: Any, path: str, detail: str) -> None:
    assert told(body) == [Fault(path, detail)]


def test_messages_of_a_kind_of_our_own_stay() -> None:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate({"rare": "plain"})
    assert faults(refused.value.errors()) == (Fault("rare", "say something rare"),)


def test_all_that_is_wrong_is_told() -> None:
    assert [path for path, _ in told({"text": "a", "number": 0, "inner": {"x": 1}})] == ["text", "number", "inner.x"]


def test_what_no_caller_wrote_is_skipped() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(dict[str, int]).validate_python({"limit": "x"})
    found = [{**error, "loc": ("query", *error["loc"])} for error in refused.value.errors()]
    assert faults(found, skip=1) == (Fault("limit", "give a whole number"),)
