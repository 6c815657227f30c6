"""Prices as they are written and counted: exact, in millionths."""

import pytest

from shared.core.cost import Cost, Price, cost_of, micros_of, parse_price


@pytest.mark.parametrize(
    ("text", "micros", "currency"),
    [
        ("0.0079 USD", 7_900, "USD"),
        ("1 TRY", 1_000_000, "TRY"),
        (" 0.03330000  EUR ", 33_300, "EUR"),
        ("0 USD", 0, "USD"),
        ("0.0000005 USD", 1, "USD"),
        (".5 USD", 500_000, "USD"),
    ],
)
def test_a_price_is_read(text: str, micros: int, currency: str) -> None:
    assert parse_price(text) == Price(micros, currency)


@pytest.mark.parametrize(
    "text", ["", "USD", "0.1", "0.1 usd", "0.1 US", "0,1 USD", "-1 USD", "1e3 USD", "٣ USD", ". USD", "NaN USD"]
)
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"0\.0079"):
        parse_price(text)


def test_parts_add_up_exactly() -> None:
    assert cost_of(3, Price(micros_of("0.0079"), "USD")) == Cost(3, Price(23_700, "USD"))
    assert cost_of(3, None) == Cost(3)
