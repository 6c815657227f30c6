"""Settings of Model A: pace, leases, back-off, retention."""

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

from shared.core.retry import DOUBLING, STEPS, Backoff
from shared.delivery.attempt import RECORD_SEC
from shared.runtime.settings import settings_config

_BACKOFFS: Final = {"doubling": DOUBLING, "steps": STEPS}
_TABLE: Final = "table"


class ModelASettings(BaseSettings):
    """E-mail sent straight from its table (`ULAK_RELAY_EMAIL_*`). Times in seconds."""

    model_config = settings_config("ULAK_RELAY_EMAIL_")

    poll_sec: float = Field(default=2.0, gt=0, le=600, description="How often an idle table is looked at (seed 001).")
    batch: int = Field(default=20, ge=1, le=1000, description="Rows per claim (seed 001).")
    in_flight: int = Field(default=2, ge=1, le=16, description="Claims at a time per class, source and process.")
    lease_sec: float = Field(default=120.0, gt=0, le=3600, description="How long a claim holds; seed 001 has 300.")
    send_deadline_sec: float = Field(default=20.0, gt=0, description="How long one mail may take on the wire.")
    backoff: Literal["doubling", "steps"] = Field(
        default="doubling",
        description="10 s doubling up to an hour and 8 attempts (seed 001), or 30 s, 2 min, 10 min and 5 (seed 000).",
    )
    reaper_poll_sec: float = Field(default=5.0, gt=0, description="How often leases are looked at.")
    processes: int = Field(
        default=1, ge=1, description="Relay processes that share the providers' quotas where there is no Redis."
    )
    keep_days: int = Field(default=90, ge=1, description="Age at which SENT and FAILED rows and their files go.")
    retention_poll_sec: float = Field(default=3600.0, gt=0, description="How often old rows are looked for.")
    retention_batch: int = Field(default=500, ge=1, le=10_000, description="Old rows removed per transaction.")
    archive: str = Field(
        default="",
        description="Where old rows go: nowhere, `table` (ulak.email_messages_archive), or a folder for NDJSON files.",
    )

    @field_validator("archive")
    @classmethod
    def _a_place(cls, text: str) -> str:
        if text not in {"", _TABLE} and not Path(text).is_absolute():
            raise ValueError("must be `table` or an absolute path of a folder")
        return text

    @model_validator(mode="after")
    def _lease_outlasts_a_send(self) -> Self:
        if self.lease_sec < self.send_deadline_sec + RECORD_SEC:
            raise ValueError(
                "ULAK_RELAY_EMAIL_LEASE_SEC is shorter than ULAK_RELAY_EMAIL_SEND_DEADLINE_SEC and "
                f"{RECORD_SEC:g} s for the record: a mail could be sent twice without any fault"
            )
        return self

    @property
    def backoff_policy(self) -> Backoff:
        return _BACKOFFS[self.backoff]

    @property
    def archive_folder(self) -> Path | None:
        return None if self.archive in {"", _TABLE} else Path(self.archive)
