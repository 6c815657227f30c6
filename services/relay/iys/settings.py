"""Settings of the sync with İYS, the Turkish registry of commercial messages. Without them nothing is synced."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class IysSettings(BaseSettings):
    """`ULAK_IYS_*`. Times in seconds."""

    model_config = settings_config("ULAK_IYS_")

    base_url: str = Field(default="https://api.iys.org.tr", description="Where the registry's REST API is.")
    username: str | None = Field(default=None, description="API user; set, consents are synced with the registry.")
    password: SecretStr | None = Field(default=None, description="The API user's password.")
    code: str | None = Field(default=None, pattern=r"^\d{1,12}$", description="The service provider's İYS number.")
    brand_code: str | None = Field(default=None, pattern=r"^\d{1,12}$", description="The brand's İYS number.")
    batch: int = Field(default=1000, ge=1, le=10_000, description="Consents in one asynchronous request.")
    poll_sec: float = Field(default=2.0, gt=0, description="How often the ledger is looked at for changes to tell.")
    result_sec: float = Field(default=30.0, gt=0, description="How often a batch is asked for its results.")
    pull_sec: float = Field(default=60.0, gt=0, description="How often the registry is asked for citizens' changes.")
    timeout_sec: float = Field(default=30.0, gt=0, description="How long one call may take.")
    lease_sec: float = Field(
        default=120.0, gt=0, description="When a change is told again whose relay died; longer than a call."
    )

    @property
    def configured(self) -> bool:
        return self.username is not None

    @property
    def brand(self) -> str:
        """The brand as its cursor is kept under."""
        return f"{self.code}/{self.brand_code}"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        wanted = {"PASSWORD": self.password, "CODE": self.code, "BRAND_CODE": self.brand_code}
        missing = [f"ULAK_IYS_{name}" for name, value in wanted.items() if value is None]
        if self.username is not None and missing:
            raise ValueError(f"{', '.join(missing)} must be set beside ULAK_IYS_USERNAME")
        if self.lease_sec <= self.timeout_sec:
            raise ValueError("ULAK_IYS_LEASE_SEC must be longer than ULAK_IYS_TIMEOUT_SEC, or changes are told twice")
        return self
