"""What the OpenAPI document must say; that the checked-in one is current is tests/unit/docs."""

from typing import Any

import orjson
import pytest

from services.ingest.gate import ADMIN_NOUNS
from services.ingest.model import MAX_BATCH_ITEMS
from services.ingest.openapi import document


@pytest.fixture
def parsed() -> dict[str, Any]:
    return document()


def test_every_reference_leads_somewhere(parsed: dict[str, Any]) -> None:
    text = orjson.dumps(document()).decode()
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in parsed["components"]["schemas"]


def test_every_call_documents_its_refusals(parsed: dict[str, Any]) -> None:
    operations = [operation for path in parsed["paths"].values() for operation in path.values()]
    assert operations
    for operation in operations:
        assert {"401", "403", "429", "503"} <= set(operation["responses"])
        assert operation["operationId"]


def test_all_of_administration_is_told(parsed: dict[str, Any]) -> None:
    assert {path.split("/")[3] for path in parsed["paths"]} >= ADMIN_NOUNS
    names = [operation["operationId"] for path in parsed["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


def test_changes_tell_of_their_preconditions(parsed: dict[str, Any]) -> None:
    """What has an ETag is changed by it."""
    free = {"putPreferences", "putRecipientPreferences", "removeRecipientDevice"}
    for path in parsed["paths"].values():
        for method, operation in path.items():
            if method in {"put", "patch", "delete"} and operation["operationId"] not in free:
                assert {"412", "428"} <= set(operation["responses"]), operation["operationId"]


def test_bodies_name_their_limits(parsed: dict[str, Any]) -> None:
    schemas = parsed["components"]["schemas"]
    assert schemas["BatchRequest"]["properties"]["items"]["maxItems"] == MAX_BATCH_ITEMS
    assert schemas["NotificationRequest"]["additionalProperties"] is False
    assert schemas["NotificationRequest"]["required"] == ["eventId", "userId", "type", "params"]
