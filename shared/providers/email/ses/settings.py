"""Settings of Amazon SES (`ULAK_SES_*`)."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.email.settings import EmailSettings
from shared.runtime.settings import settings_config


class SesSettings(EmailSettings):
    """One account in one region of Amazon SES, by its API v2."""

    model_config = settings_config("ULAK_SES_")

    region: str | None = Field(default=None, pattern=r"^[a-z0-9-]{1,40}$", description="Region, as eu-central-1.")
    access_key_id: str | None = Field(
        default=None,
        description="Access key; unset: as AWS's own tools find one (environment, shared file, container, instance).",
    )
    secret_access_key: SecretStr | None = Field(default=None, description="Its secret.")
    secret_access_key_file: Path | None = Field(default=None, description="File with the secret, instead.")
    configuration_set: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Configuration set that mails are sent under."
    )
    base_url: str | None = Field(default=None, description="Where the API is; unset: the region's public endpoint.")
    quota_per_second: float | None = Field(
        default=14, gt=0, description="Recipients a second: what accounts begin with outside the sandbox."
    )

    @property
    def configured(self) -> bool:
        return self.region is not None

    @property
    def endpoint(self) -> str:
        """Source: AWS General Reference, "Amazon SES endpoints and quotas"."""
        return (self.base_url or f"https://email.{self.region}.amazonaws.com").rstrip("/")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.region is not None:
            if self.from_address is None:
                raise ValueError("ULAK_SES_FROM_ADDRESS is missing beside ULAK_SES_REGION")
            if (self.access_key_id is None) != (self.secret_access_key is None):
                raise ValueError("set ULAK_SES_ACCESS_KEY_ID and ULAK_SES_SECRET_ACCESS_KEY together, or neither")
        return self
