"""Settings of Firebase Cloud Messaging (`ULAK_FCM_*`)."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from shared.providers.settings import ProviderSettings
from shared.runtime.settings import settings_config


class FcmSettings(ProviderSettings):
    """One Firebase project, by its service account."""

    model_config = settings_config("ULAK_FCM_")

    service_account_file: Path | None = Field(default=None, description="JSON key of the service account.")
    project_id: str | None = Field(default=None, description="Firebase project; unset: the service account's.")
    base_url: str = Field(default="https://fcm.googleapis.com", description="Where the HTTP v1 API is.")
    concurrency: int = Field(default=500, ge=1, le=2000, description="Messages on the wire at once, per worker.")
    quota_per_second: float | None = Field(
        default=10_000, gt=0, description="Messages a second: FCM's 600,000 a minute and project by default."
    )

    @property
    def configured(self) -> bool:
        return self.service_account_file is not None

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.service_account_file is not None and not self.service_account_file.is_file():
            raise ValueError("ULAK_FCM_SERVICE_ACCOUNT_FILE names no file")
        return self
