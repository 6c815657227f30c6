"""What the OpenAPI document must say; that the checked-in one is current is tests/unit/docs."""

import orjson

from services.me.app import _BY_HAND
from services.me.openapi import document
from shared.profile.model import OwnWords, PreferencesBody
from shared.wire.channel import Category


def test_every_reference_leads_somewhere() -> None:
    parsed = document()
    text = orjson.dumps(parsed).decode()
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in parsed["components"]["schemas"]
    assert {model.__name__ for model in _BY_HAND} <= set(parsed["components"]["schemas"])


def test_every_call_asks_for_a_token_but_those_by_link_or_ticket() -> None:
    parsed = document()
    assert parsed["security"] == [{"userToken": []}]
    free = [
        path for path, calls in parsed["paths"].items() if any(call.get("security") == [] for call in calls.values())
    ]
    assert set(free) <= {"/u/{token}", "/api/v1/me/stream"}
    for path, calls in parsed["paths"].items():
        for call in calls.values():
            assert call["operationId"]
            if path not in free:
                assert {"401", "429", "503"} <= set(call["responses"]), path


def test_every_category_has_its_field() -> None:
    for model in (PreferencesBody, OwnWords):
        named = {field.alias for field in model.model_fields.values()}
        assert {category.value for category in Category} <= named
