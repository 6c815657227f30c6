"""Declared parameters: which schemas may be declared, and what requests are told that do not fit."""

from typing import Any

import pytest

from shared.content.parameter import declared_names, param_problems, required_names, schema_problems

ORDER = {
    "type": "object",
    "properties": {
        "orderNo": {"type": "string", "maxLength": 8, "pattern": "^[0-9]+$"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
    "required": ["orderNo"],
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"inner": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        pytest.param(None, None, id="none-is-fine"),
        pytest.param(ORDER, None, id="an-order"),
        pytest.param(
            {"type": "object", "$defs": {"m": {}}, "properties": {"a": {"$ref": "#/$defs/m"}}}, None, id="own-ref"
        ),
        pytest.param({"type": "array"}, ".type", id="not-an-object"),
        pytest.param({"properties": {}}, ".type", id="says-no-type"),
        pytest.param({"type": "object", "$ref": "https://example.com/x.json"}, "", id="remote-ref"),
        pytest.param({"type": "object", "$ref": "file:///etc/passwd"}, "", id="file-ref"),
        pytest.param({"type": "object", "$ref": "#/$defs/nothing"}, "", id="ref-to-nothing"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "strin"}}}, ".properties.a.type", id="no-such-type"
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"pattern": "(?=a)b"}}}, ".properties.a.pattern", id="look-around"
        ),
        pytest.param({"type": "object", "description": "x" * 20_000}, "", id="too-large"),
        pytest.param(nested(20), "", id="too-deep"),
    ],
)
def test_schemas(schema: dict[str, Any] | None, path: str | None) -> None:
    assert [problem.path for problem in schema_problems(schema)] == ([] if path is None else [path])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"orderNo": "98213"}, [], id="fits"),
        pytest.param({}, [("", '"orderNo" is a required property')], id="missing"),
        pytest.param({"orderNo": 98213}, [(".orderNo", 'the value is not of type "string"')], id="wrong-type"),
        pytest.param({"orderNo": "982130000"}, [(".orderNo", "the value is longer than 8 characters")], id="too-long"),
        pytest.param(
            {"orderNo": "1", "items": [{"name": 1}]},
            [(".items.0.name", 'the value is not of type "string"')],
            id="deep",
        ),
    ],
)
def test_params(params: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(problem.path, problem.message) for problem in param_problems(ORDER, params)] == expected


def test_a_value_is_never_repeated() -> None:
    strict = ORDER | {"additionalProperties": False, "propertyNames": {"maxLength": 10}}
    params = {"orderNo": "Ayşe Yılmaz", "items": "482913", "x": {"secret": "hunter2"}}
    told = " ".join(problem.message for problem in param_problems(strict, params))
    for secret in ("Ayşe", "482913", "hunter2"):
        assert secret not in told


def test_a_hostile_pattern_takes_no_time() -> None:
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    assert schema_problems(schema) == ()
    assert len(param_problems(schema, {"a": "a" * 5_000 + "!"})) == 1


def test_at_most_twenty_are_told() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert len(param_problems(schema, {f"p{number}": number for number in range(100)})) == 20


@pytest.mark.parametrize(
    ("more", "names"),
    [
        pytest.param({}, {"orderNo", "items"}, id="what-it-names"),
        pytest.param({"additionalProperties": False}, {"orderNo", "items"}, id="nothing-else"),
        pytest.param({"additionalProperties": True}, None, id="anything-else"),
        pytest.param({"additionalProperties": {"type": "string"}}, None, id="any-text"),
        pytest.param({"patternProperties": {"^x": {}}}, None, id="by-pattern"),
        pytest.param({"allOf": [{"properties": {"a": {}}}]}, None, id="elsewhere"),
    ],
)
def test_what_a_schema_lets_templates_use(more: dict[str, Any], names: set[str] | None) -> None:
    assert declared_names(ORDER | more) == names


def test_what_every_request_brings() -> None:
    assert required_names(ORDER) == {"orderNo"}
    assert required_names({"type": "object"}) == set()
