"""Events through mappings: JMESPath over the whole event."""

from typing import Any

import pytest

from services.router.mapping import Mapped, Unmappable, apply
from shared.core.catalogue import EventMapping

BODY: dict[str, Any] = {
    "id": "e1",
    "subject": "42",
    "data": {"customer": {"id": 7}, "orderNo": "98213", "items": [{"n": 1}, {"n": 2}], "note": None, "vip": True},
}


def mapping(
    recipient: str = "data.customer.id", params: dict[str, str] | None = None, business_key: str | None = None
) -> EventMapping:
    return EventMapping("m", "t", "ORDER_SHIPPED", "", recipient, params or {}, business_key)


def test_an_integer_user_id_is_taken_in_its_decimal_form() -> None:
    assert apply(mapping(), BODY) == Mapped("7", {})


def test_parameters_are_values_of_any_shape_and_absent_ones_are_left_out() -> None:
    params = {"no": "data.orderNo", "count": "length(data.items)", "note": "data.note", "none": "data.nothing"}
    assert apply(mapping(params=params), BODY) == Mapped("7", {"no": "98213", "count": 2})


def test_attributes_of_the_event_itself_are_in_reach() -> None:
    assert apply(mapping(recipient="subject", business_key="id"), BODY) == Mapped("42", {}, "e1")


@pytest.mark.parametrize(
    ("recipient", "reason"),
    [
        pytest.param("data.nobody", "no_recipient", id="absent"),
        pytest.param("data.customer", "no_recipient", id="an-object"),
        pytest.param("data.vip", "no_recipient", id="a-boolean-is-no-number"),
        pytest.param("''", "no_recipient", id="empty"),
        pytest.param("length(data.vip)", "mapping_failed", id="type-error-in-the-expression"),
        pytest.param("data.[", "mapping_failed", id="not-an-expression"),
    ],
)
def test_what_finds_no_user_is_a_value_that_names_no_content(recipient: str, reason: str) -> None:
    answer = apply(mapping(recipient=recipient), BODY)
    assert isinstance(answer, Unmappable)
    assert answer.reason == reason
    assert "98213" not in answer.detail
