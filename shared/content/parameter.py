"""The parameters that a type declares (JSON Schema, draft 2020-12): the schema itself, and requests against it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import orjson

MAX_SCHEMA_BYTES: Final = 16 * 1024
MAX_SCHEMA_DEPTH: Final = 16
MAX_PROBLEMS: Final = 20
_ELSEWHERE: Final = frozenset({"patternProperties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"})
"""Keywords by which a schema may name parameters outside of its `properties`."""
_MASK: Final = "the value"
"""What stands for a value in messages: it may be anybody's name or code."""


@dataclass(frozen=True, slots=True)
class ParameterProblem:
    """path is relative to the schema or to params, like `.orderNo` or `.items.0`; empty for the whole."""

    path: str
    message: str


def schema_problems(schema: Mapping[str, Any] | None) -> tuple[ParameterProblem, ...]:
    """What keeps a schema from being used. It must describe an object, fetch nothing and end soon: patterns are of
    the kind that takes time in proportion to its text (no look-around, no back-references).
    """
    if schema is None:
        return ()
    wrong = _out_of_bounds(schema)
    if wrong is not None:
        return (wrong,)
    try:
        _validator(_canonical(schema))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else ()
        return (ParameterProblem(_dotted(path), "not JSON Schema (draft 2020-12), or a pattern with look-around"),)
    return ()


def _out_of_bounds(schema: Mapping[str, Any]) -> ParameterProblem | None:
    if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
        return ParameterProblem("", f"larger than {MAX_SCHEMA_BYTES} bytes")
    if _depth(schema) > MAX_SCHEMA_DEPTH:
        return ParameterProblem("", f"nested deeper than {MAX_SCHEMA_DEPTH} levels")
    if schema.get("type") != "object":
        return ParameterProblem(".type", "params are an object: say type: object")
    if not all(reference.startswith("#") for reference in _references(schema)):
        return ParameterProblem("", "a $ref may point into the schema itself only, like #/$defs/money")
    return None


class Declaration:
    """A type's declared parameters, ready to be asked for every request. The schema has no problems."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._validator = _validator(_canonical(schema))

    def problems(self, params: Mapping[str, Any]) -> tuple[ParameterProblem, ...]:
        """What in params is not allowed, at most MAX_PROBLEMS; never repeats a value. Takes microseconds if all is."""
        if self._validator.is_valid(params):
            return ()
        found: list[ParameterProblem] = []
        for error in self._validator.iter_errors(params):
            found.append(ParameterProblem(_dotted(error.instance_path), error.message))
            if len(found) == MAX_PROBLEMS:
                break
        return tuple(found)


def param_problems(schema: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[ParameterProblem, ...]:
    """As `Declaration.problems`, for whoever asks once."""
    return Declaration(schema).problems(dict(params))


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value of any kind is what a schema, or a part of one without references, allows."""
    try:
        return _validator(_canonical(schema)).is_valid(value)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return False


def declared_names(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """The parameters that a schema names, and templates may use; None where it means to allow more than it names:
    `additionalProperties` other than false, or names said in another way than by `properties`.
    """
    if schema.get("additionalProperties", False) is not False or not _ELSEWHERE.isdisjoint(schema):
        return None
    return frozenset(schema.get("properties", {}))


def required_names(schema: Mapping[str, Any]) -> frozenset[str]:
    """The parameters that every request brings."""
    return frozenset(schema.get("required", ()))


@lru_cache(maxsize=1024)
def _validator(schema: str) -> jsonschema_rs.Draft202012Validator:
    """Compiled once per text of a schema."""
    return jsonschema_rs.Draft202012Validator(
        json.loads(schema), mask=_MASK, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


def _canonical(schema: Mapping[str, Any]) -> str:
    return orjson.dumps(schema, option=orjson.OPT_SORT_KEYS).decode()


def _dotted(path: Any) -> str:
    return "".join(f".{step}" for step in path)


def _depth(value: Any) -> int:
    if isinstance(value, Mapping):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(inner, str):
                yield inner
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
