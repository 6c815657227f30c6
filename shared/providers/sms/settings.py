"""What the settings of all SMS providers have in common: who messages are from, and what they cost, by country."""

from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from shared.core.cost import Cost, Price, cost_of, parse_price
from shared.providers.settings import ProviderSettings
from shared.providers.sms.country import ByCountry, parse_by_country, parse_sender_id, sender_for


class SmsSettings(ProviderSettings):
    """Base of an SMS provider's settings."""

    senders: str = Field(
        default="",
        description="Sender ids by country code, before the account's: `+90=SHOP,+1=+12025550123`; `*`: any other.",
    )
    prices: str = Field(
        default="",
        description="What a segment costs by country code: `+90=0.0079 USD,*=0.05 USD`; unset: no price is recorded.",
    )

    @cached_property
    def sender_ids(self) -> ByCountry[str]:
        return parse_by_country(self.senders, parse_sender_id)

    @cached_property
    def price_table(self) -> ByCountry[Price]:
        return parse_by_country(self.prices, parse_price)

    def sender(self, number: str, wanted: str | None) -> str | None:
        """As `sender_for`."""
        return sender_for(number, wanted, self.sender_ids)

    def cost(self, number: str, segments: int) -> Cost:
        """Of so many segments to the number, at the price that is set."""
        return cost_of(segments, self.price_table.at(number))

    @model_validator(mode="after")
    def _readable_tables(self) -> Self:
        for name, table in (("senders", "sender_ids"), ("prices", "price_table")):
            try:
                getattr(self, table)
            except ValueError as error:
                raise ValueError(f"{self.model_config.get('env_prefix', '')}{name.upper()}: {error}") from error
        return self
