"""The service keeps its OpenAPI document: generated requests, valid and invalid, get documented answers only."""

import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import hypothesis
import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from services.ingest.__main__ import Surfaces
from tests.integration.ingest.conftest import Ingest

DOCUMENT = orjson.loads((Path(__file__).parents[3] / "docs/openapi/ingest.json").read_bytes())
OPERATIONS = [(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods]


@schemathesis.serializer("application/x-ndjson")
def _line(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    """A stream of one generated line, or whatever text it is."""
    text = value if isinstance(value, str) else json.dumps(value)  # numbers may have more than orjson's 64 bits
    return text.encode(errors="replace") + b"\n"


@pytest.fixture
def surfaces() -> Collection[Surfaces]:
    return [Surfaces.ALL]


@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda value: value)
async def test_answers_are_documented(ingest: Ingest, path: str, method: str) -> None:
    """No 5xx, no undocumented status or content type, every body of its documented shape."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    authorization = ingest.client.headers["authorization"]

    @hypothesis.seed(20261130)
    @settings(
        max_examples=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=schema[path][method].as_strategy())
    def keeps_the_document(case: schemathesis.Case[Any]) -> None:
        response = case.call(base_url=ingest.url, headers={"Authorization": authorization})
        case.validate_response(
            response,
            checks=[
                not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    await asyncio.to_thread(keeps_the_document)
