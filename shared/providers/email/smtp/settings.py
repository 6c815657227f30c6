"""Settings of an SMTP relay (`ULAK_SMTP_*`)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.email.settings import EmailSettings
from shared.runtime.settings import settings_config


class SmtpSettings(EmailSettings):
    """One relay that takes our mail."""

    model_config = settings_config("ULAK_SMTP_")

    host: str | None = Field(default=None, description="Name of the relay.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    security: Literal["starttls", "opportunistic", "tls", "none"] = Field(
        default="starttls",
        description="STARTTLS required, with a trusted certificate; opportunistic: STARTTLS where offered, any "
        "certificate, else none; TLS from the first byte; or none.",
    )
    username: str | None = Field(default=None, description="Login; unset: none.")
    password: SecretStr | None = Field(default=None, description="Its password.")
    password_file: Path | None = Field(default=None, description="File with the password, instead.")
    helo_name: str = Field(default="localhost", description="Name given in EHLO; the host's public name.")
    concurrency: int = Field(default=10, ge=1, le=500, description="Kept connections, per worker process.")
    connect_timeout_sec: float = Field(default=15.0, gt=0, description="Connecting, greeting and TLS (seed 001).")
    command_timeout_sec: float = Field(default=15.0, gt=0, description="Each command (seed 001).")
    idle_sec: float = Field(default=60.0, gt=0, description="How long an unused connection is kept.")

    @property
    def configured(self) -> bool:
        return self.host is not None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.host is not None:
            if self.from_address is None:
                raise ValueError("ULAK_SMTP_FROM_ADDRESS is missing beside ULAK_SMTP_HOST")
            if (self.username is None) != (self.password is None):
                raise ValueError("set ULAK_SMTP_USERNAME and ULAK_SMTP_PASSWORD together, or neither")
            if self.username is not None and self.security in {"none", "opportunistic"}:
                raise ValueError("ULAK_SMTP_PASSWORD would travel in clear: set ULAK_SMTP_SECURITY to starttls or tls")
        return self
