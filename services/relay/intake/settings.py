"""Settings of Model B's intake and write-back."""

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class IntakeSettings(BaseSettings):
    """E-mail that goes by the ledger (`ULAK_RELAY_INTAKE_*`). Times in seconds."""

    model_config = settings_config("ULAK_RELAY_INTAKE_")

    poll_sec: float = Field(
        default=2.0, gt=0, le=600, description="How often an idle table is looked at, beside NOTIFY."
    )
    batch: int = Field(default=100, ge=1, le=1000, description="E-mail rows per transaction.")
    key_wait_sec: float = Field(
        default=30.0, gt=0, description="How long a row rests that is sealed under a key not yet in the ring."
    )
    write_back_sec: float = Field(
        default=1.0, gt=0, le=600, description="How often messages are looked at whose end a source waits for."
    )
    write_back_page: int = Field(default=1000, ge=1, le=10_000, description="Messages looked at in one step of that.")
