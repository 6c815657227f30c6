"""Settings of Apple's push service (`ULAK_APNS_*`)."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from shared.providers.settings import ProviderSettings
from shared.runtime.settings import settings_config


class ApnsSettings(ProviderSettings):
    """One signing key of one team; it signs for all of the team's apps."""

    model_config = settings_config("ULAK_APNS_")

    key_file: Path | None = Field(default=None, description="The signing key, AuthKey_<key id>.p8.")
    key_id: str | None = Field(default=None, min_length=10, max_length=10, description="The key's id, ten characters.")
    team_id: str | None = Field(default=None, min_length=10, max_length=10, description="The team's id, likewise.")
    topic: str | None = Field(default=None, description="Bundle id of devices that name no app of their own.")
    base_url: str = Field(
        default="https://api.push.apple.com", description="Production; sandbox: https://api.sandbox.push.apple.com."
    )
    engine: Literal["transport", "aioapns"] = Field(
        default="transport", description="Who carries the requests: Ulak's HTTP/2 transport or the library aioapns."
    )
    concurrency: int = Field(default=500, ge=1, le=2000, description="Messages on the wire at once, per worker.")

    @property
    def configured(self) -> bool:
        return self.key_file is not None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.key_file is not None:
            for name in ("key_id", "team_id", "topic"):
                if getattr(self, name) is None:
                    raise ValueError(f"ULAK_APNS_{name.upper()} is missing beside ULAK_APNS_KEY_FILE")
            if not self.key_file.is_file():
                raise ValueError("ULAK_APNS_KEY_FILE names no file")
        return self
