"""Twilio's settings (`ULAK_TWILIO_*`)."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from shared.providers.sms.settings import SmsSettings
from shared.runtime.settings import settings_config


class TwilioSettings(SmsSettings):
    """One Twilio account. Sender number or messaging service: one of the two."""

    model_config = SettingsConfigDict(**settings_config("ULAK_TWILIO_"), populate_by_name=True)

    account_sid: str | None = Field(default=None, pattern=r"^AC[0-9a-fA-F]{32}$", description="Account SID (AC...).")
    auth_token: SecretStr | None = Field(default=None, description="Auth token of the account.")
    auth_token_file: Path | None = Field(default=None, description="File with the auth token, instead.")
    from_number: str | None = Field(default=None, description="Sender: a number in E.164 or an alphanumeric id.")
    messaging_service_sid: str | None = Field(default=None, description="Messaging service (MG...), not a number.")
    base_url: str = Field(default="https://api.twilio.com", description="Where the REST API is.")
    public_callback_url: str | None = Field(
        default=None,
        validation_alias="ULAK_PUBLIC_CALLBACK_URL",
        description="Public URL of the callbacks service; unset: no status callbacks are asked for.",
    )
    quota_per_second: float | None = Field(default=500, gt=0, description="Messages a second by contract (seed 003).")
    quota_reserve_per_second: float = Field(default=150, ge=0, description="Of these, for login codes alone.")

    @property
    def configured(self) -> bool:
        return self.account_sid is not None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.account_sid is not None:
            if self.auth_token is None:
                raise ValueError("ULAK_TWILIO_AUTH_TOKEN is missing beside ULAK_TWILIO_ACCOUNT_SID")
            if (self.from_number is None) == (self.messaging_service_sid is None):
                raise ValueError("set one of ULAK_TWILIO_FROM_NUMBER and ULAK_TWILIO_MESSAGING_SERVICE_SID")
        return self
