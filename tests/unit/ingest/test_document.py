"""The OpenAPI document is checked in, so that a change of contract shows in a diff."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from services.ingest.document import document
from services.ingest.model import MAX_BATCH_ITEMS

CHECKED_IN = Path(__file__).parents[3] / "docs/openapi/ingest.json"


def test_checked_in_document_is_current() -> None:
    """If this fails: `python -m services.ingest.document > docs/openapi/ingest.json`, and look at the diff."""
    assert CHECKED_IN.read_bytes() == document()


@pytest.fixture
def parsed() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(document())
    return found


def test_every_reference_leads_somewhere(parsed: dict[str, Any]) -> None:
    text = document().decode()
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in parsed["components"]["schemas"]


def test_every_call_documents_its_refusals(parsed: dict[str, Any]) -> None:
    operations = [operation for path in parsed["paths"].values() for operation in path.values()]
    assert len(operations) == 8
    for operation in operations:
        assert {"401", "403", "429", "503"} <= set(operation["responses"])
        assert operation["operationId"]


def test_bodies_name_their_limits(parsed: dict[str, Any]) -> None:
    schemas = parsed["components"]["schemas"]
    assert schemas["BatchRequest"]["properties"]["items"]["maxItems"] == MAX_BATCH_ITEMS
    assert schemas["NotificationRequest"]["additionalProperties"] is False
    assert schemas["NotificationRequest"]["required"] == ["eventId", "userId", "type", "params"]
