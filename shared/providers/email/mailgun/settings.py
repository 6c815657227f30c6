"""Settings of Mailgun (`ULAK_MAILGUN_*`)."""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.email.settings import EmailSettings
from shared.runtime.settings import settings_config

REGIONS: Final = {"us": "https://api.mailgun.net", "eu": "https://api.eu.mailgun.net"}
"""Mailgun, "API overview": base URL by the region that a domain was made in."""


class MailgunSettings(EmailSettings):
    """One sending domain at Mailgun."""

    model_config = settings_config("ULAK_MAILGUN_")

    domain: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9.-]{1,253}$", description="Sending domain, as it is set up at Mailgun."
    )
    api_key: SecretStr | None = Field(default=None, description="API key of the account, or the domain's sending key.")
    api_key_file: Path | None = Field(default=None, description="File with the key, instead.")
    region: Literal["us", "eu"] = Field(default="us", description="Region that the domain was made in.")
    base_url: str | None = Field(default=None, description="Where the API is; unset: the region's public address.")

    @property
    def configured(self) -> bool:
        return self.domain is not None

    @property
    def endpoint(self) -> str:
        return (self.base_url or REGIONS[self.region]).rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.domain is not None:
            if self.api_key is None:
                raise ValueError("ULAK_MAILGUN_API_KEY is missing beside ULAK_MAILGUN_DOMAIN")
            if self.from_address is None:
                raise ValueError("ULAK_MAILGUN_FROM_ADDRESS is missing beside ULAK_MAILGUN_DOMAIN")
        return self
