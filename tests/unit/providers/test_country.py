"""Sender ids and prices by country: the longest code that fits decides."""

import pytest

from shared.core.cost import Cost, Price
from shared.providers.sms.country import parse_by_country, parse_sender_id, sender_for
from shared.providers.sms.twilio.settings import TwilioSettings

TABLE = parse_by_country("+90=SHOP, +1=+12025550123, +1876=Yard, *=Elsewhere", parse_sender_id)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("+905321234567", "SHOP"),
        ("+12025550199", "+12025550123"),
        ("+18765550199", "Yard"),
        ("+491711234567", "Elsewhere"),
        ("+9", "Elsewhere"),
    ],
)
def test_the_longest_code_decides(number: str, expected: str) -> None:
    assert TABLE.at(number) == expected


def test_nothing_is_said_about_other_countries_without_a_rest() -> None:
    assert parse_by_country("+90=SHOP", parse_sender_id).at("+491711234567") is None
    assert parse_by_country("", parse_sender_id).at("+905321234567") is None


@pytest.mark.parametrize(
    ("number", "wanted", "expected"),
    [
        pytest.param("+905321234567", None, "SHOP", id="the country's"),
        pytest.param("+905321234567", "CAMPAIGN", "CAMPAIGN", id="a template's own comes first"),
        pytest.param("+12025550199", "CAMPAIGN", "+12025550123", id="but where the country takes numbers alone"),
        pytest.param("+12025550199", "12345", "12345", id="a number goes everywhere"),
        pytest.param("+18765550199", "CAMPAIGN", "CAMPAIGN", id="a name is taken where names are"),
    ],
)
def test_who_a_message_is_from(number: str, wanted: str | None, expected: str) -> None:
    assert sender_for(number, wanted, TABLE) == expected


def test_without_a_table_the_account_decides() -> None:
    empty = parse_by_country("", parse_sender_id)
    assert sender_for("+905321234567", None, empty) is None
    assert sender_for("+905321234567", "CAMPAIGN", empty) == "CAMPAIGN"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("90=SHOP", r"country code or \*"),
        ("+90", r"country code or \*"),
        ("+90=", r"country code or \*"),
        ("+90=A,+90=B", r"\+90 is there twice"),
        ("+90=MUCHTOOLONGANAME", "up to 11 characters"),
        ("+90=ŞOP", "up to 11 characters"),
    ],
)
def test_a_table_that_cannot_be_read_says_why(text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse_by_country(text, parse_sender_id)


def test_a_wrong_table_ends_the_start_with_its_setting_s_name() -> None:
    with pytest.raises(ValueError, match=r"ULAK_TWILIO_PRICES: a price is an amount"):
        TwilioSettings(prices="+90=much")
    with pytest.raises(ValueError, match=r"ULAK_TWILIO_SENDERS: \+90 is there twice"):
        TwilioSettings(senders="+90=A,+90=B")


def test_cost_goes_by_the_country() -> None:
    settings = TwilioSettings(prices="+90=0.0079 USD,*=0.05 USD")
    assert settings.cost("+905321234567", 3) == Cost(3, Price(23_700, "USD"))
    assert settings.cost("+491711234567", 1) == Cost(1, Price(50_000, "USD"))
    assert TwilioSettings().cost("+905321234567", 2) == Cost(2)
