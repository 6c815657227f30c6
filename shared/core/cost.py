"""What one message cost at its provider. Pure."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Of one segment: millionths of the currency (ISO 4217)."""

    micros: int
    currency: str


@dataclass(frozen=True, slots=True)
class Cost:
    """segments: parts that the provider charges. price: of all of them together; None where nobody knows it."""

    segments: int
    price: Price | None = None


def cost_of(segments: int, each: Price | None) -> Cost:
    """Of so many segments at this price each."""
    return Cost(segments, None if each is None else Price(segments * each.micros, each.currency))


def parse_price(text: str) -> Price:
    """`0.0079 USD`; ValueError for what is no amount of at most six decimals with a currency code."""
    amount, _, currency = text.strip().partition(" ")
    currency = currency.strip()
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):
        raise ValueError("a price is an amount and a currency code: 0.0079 USD")
    return Price(micros_of(amount), currency)


def micros_of(amount: str) -> int:
    """An amount's millionths, rounded half up; ValueError for what is no amount of zero or more."""
    if not amount.isascii() or not amount.replace(".", "", 1).isdigit():
        raise ValueError("an amount is digits with a point: 0.0079")
    return int((Decimal(amount) * MICROS).to_integral_value(rounding="ROUND_HALF_UP"))
