"""Settings of an SMTP relay (`ULAK_SMTP_*`)."""

from typing import Literal, Self

from email_validator import EmailNotValidError, validate_email
from pydantic import Field, SecretStr, field_validator, model_validator

from shared.providers.settings import ProviderSettings
from shared.runtime.settings import settings_config


class SmtpSettings(ProviderSettings):
    """One relay that takes our mail."""

    model_config = settings_config("ULAK_SMTP_")

    host: str | None = Field(default=None, description="Name of the relay.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="STARTTLS (required, not merely tried), TLS from the first byte, or none."
    )
    username: str | None = Field(default=None, description="Login; unset: none.")
    password: SecretStr | None = Field(default=None, description="Its password.")
    from_address: str | None = Field(default=None, description="Sender of the envelope and of the From header.")
    from_name: str = Field(default="", description="Display name in the From header.")
    helo_name: str = Field(default="localhost", description="Name given in EHLO; the host's public name.")
    concurrency: int = Field(default=10, ge=1, le=500, description="Kept connections, per worker process.")
    connect_timeout_sec: float = Field(default=15.0, gt=0, description="Connecting, greeting and TLS (seed 001).")
    command_timeout_sec: float = Field(default=15.0, gt=0, description="Each command (seed 001).")
    idle_sec: float = Field(default=60.0, gt=0, description="How long an unused connection is kept.")

    @property
    def configured(self) -> bool:
        return self.host is not None

    @field_validator("from_address")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return validate_email(value, check_deliverability=False, test_environment=True).ascii_email
        except EmailNotValidError:
            raise ValueError("is not an e-mail address with an ASCII local part") from None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.host is not None:
            if self.from_address is None:
                raise ValueError("ULAK_SMTP_FROM_ADDRESS is missing beside ULAK_SMTP_HOST")
            if (self.username is None) != (self.password is None):
                raise ValueError("set ULAK_SMTP_USERNAME and ULAK_SMTP_PASSWORD together, or neither")
            if self.username is not None and self.security == "none":
                raise ValueError("ULAK_SMTP_PASSWORD would travel in clear: set ULAK_SMTP_SECURITY to starttls or tls")
        return self
