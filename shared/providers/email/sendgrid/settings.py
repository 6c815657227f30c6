"""Settings of SendGrid (`ULAK_SENDGRID_*`)."""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.email.settings import EmailSettings
from shared.runtime.settings import settings_config

REGIONS: Final = {"global": "https://api.sendgrid.com", "eu": "https://api.eu.sendgrid.com"}
"""Twilio, "Mail Send API overview": base URL; the second for regional subusers in the EU."""


class SendgridSettings(EmailSettings):
    """One account or subuser of Twilio SendGrid, by its API v3."""

    model_config = settings_config("ULAK_SENDGRID_")

    api_key: SecretStr | None = Field(default=None, description="API key with the right `mail.send`.")
    api_key_file: Path | None = Field(default=None, description="File with the key, instead.")
    region: Literal["global", "eu"] = Field(default="global", description="eu: a regional subuser in the EU.")
    base_url: str | None = Field(default=None, description="Where the API is; unset: the region's public address.")

    @property
    def configured(self) -> bool:
        return self.api_key is not None

    @property
    def endpoint(self) -> str:
        return (self.base_url or REGIONS[self.region]).rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.api_key is not None and self.from_address is None:
            raise ValueError("ULAK_SENDGRID_FROM_ADDRESS is missing beside ULAK_SENDGRID_API_KEY")
        return self
