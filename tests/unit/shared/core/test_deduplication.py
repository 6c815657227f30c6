"""The same request has the same fingerprint, however it is written; any difference gives another."""

from typing import Any

import pytest

from shared.core.deduplication import mapping_key, request_fingerprint
from shared.core.sealing import KeyRing

RING = KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(range(32)))
PARAMS: dict[str, Any] = {"orderNo": "98213", "carrier": {"name": "Kargo A", "code": 7}}


def fingerprint(recipient: str = "42", type_name: str = "ORDER_SHIPPED", params: Any = None, ring: Any = RING) -> bytes:
    return request_fingerprint(ring, recipient=recipient, type_name=type_name, params=params or PARAMS)


def test_the_order_of_keys_does_not_count() -> None:
    assert fingerprint(params={"carrier": {"code": 7, "name": "Kargo A"}, "orderNo": "98213"}) == fingerprint()


@pytest.mark.parametrize(
    "other",
    [
        {"recipient": "43"},
        {"type_name": "ORDER_PAID"},
        {"params": {**PARAMS, "orderNo": "98214"}},
        {"params": {**PARAMS, "orderNo": 98213}},
        {"params": {**PARAMS, "extra": None}},
        {"ring": KeyRing(active="k1", keys={"k1": bytes(32)}, lookup_key=bytes(32))},
    ],
)
def test_any_difference_counts(other: dict[str, Any]) -> None:
    assert fingerprint(**other) != fingerprint()


def test_text_cannot_move_between_recipient_and_type() -> None:
    assert fingerprint(recipient='a","b', type_name="c") != fingerprint(recipient="a", type_name='b","c')


def test_mapping_key() -> None:
    assert mapping_key("ORDER_SHIPPED") == "ORDER_SHIPPED"
    assert mapping_key("ORDER_SHIPPED", "seller") == "ORDER_SHIPPED:seller"
