"""Netgsm's settings (`ULAK_NETGSM_*`)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from shared.providers.sms.settings import SmsSettings
from shared.runtime.settings import settings_config


class NetgsmSettings(SmsSettings):
    """One subscription of Netgsm (Türkiye), by its REST API v2."""

    model_config = settings_config("ULAK_NETGSM_")

    usercode: str | None = Field(default=None, description="User of the API: the subscription's number, 850.......")
    password: SecretStr | None = Field(default=None, description="The API user's password.")
    password_file: Path | None = Field(default=None, description="File with the password, instead.")
    msgheader: str | None = Field(
        default=None, min_length=3, max_length=11, description="Sender: a header that Netgsm has approved."
    )
    iys_recipients: Literal["individual", "merchant"] = Field(
        default="individual", description="Whose consents Netgsm looks up at İYS for marketing: BİREYSEL or TACİR."
    )
    base_url: str = Field(default="https://api.netgsm.com.tr", description="Where the API is.")

    @property
    def configured(self) -> bool:
        return self.usercode is not None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.usercode is not None:
            if self.password is None:
                raise ValueError("ULAK_NETGSM_PASSWORD is missing beside ULAK_NETGSM_USERCODE")
            if self.msgheader is None:
                raise ValueError("ULAK_NETGSM_MSGHEADER is missing beside ULAK_NETGSM_USERCODE")
        return self
