"""Vonage's settings (`ULAK_VONAGE_*`)."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.sms.country import parse_sender_id
from shared.providers.sms.settings import SmsSettings
from shared.runtime.settings import settings_config


class VonageSettings(SmsSettings):
    """One Vonage account, by its SMS API."""

    model_config = settings_config("ULAK_VONAGE_")

    api_key: str | None = Field(default=None, pattern=r"^[0-9a-zA-Z]{8}$", description="API key of the account.")
    api_secret: SecretStr | None = Field(default=None, description="API secret of the account.")
    api_secret_file: Path | None = Field(default=None, description="File with the API secret, instead.")
    sender_id: str | None = Field(default=None, description="Sender: a number in E.164 or an alphanumeric id.")
    price_currency: str = Field(
        default="EUR", pattern=r"^[A-Z]{3}$", description="Currency of the prices in Vonage's replies: the account's."
    )
    base_url: str = Field(default="https://rest.nexmo.com", description="Where the SMS API is.")
    quota_per_second: float | None = Field(
        default=30, gt=0, description="Messages a second: Vonage's 30 an account by default."
    )

    @property
    def configured(self) -> bool:
        return self.api_key is not None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.api_key is not None:
            if self.api_secret is None:
                raise ValueError("ULAK_VONAGE_API_SECRET is missing beside ULAK_VONAGE_API_KEY")
            if self.sender_id is None:
                raise ValueError("ULAK_VONAGE_SENDER_ID is missing beside ULAK_VONAGE_API_KEY")
            parse_sender_id(self.sender_id)
        return self
