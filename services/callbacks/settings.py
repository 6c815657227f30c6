"""The callback receiver's and the projector's limits."""

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class CallbackSettings(BaseSettings):
    """`ULAK_CALLBACKS_*`. Memory is bounded by max_in_flight x max_body_bytes."""

    model_config = settings_config("ULAK_CALLBACKS_")

    max_body_bytes: int = Field(default=65_536, ge=1_024, le=1_000_000, description="Largest callback body.")
    read_timeout_sec: float = Field(default=10.0, gt=0, description="How long a body may take to arrive.")
    publish_timeout_sec: float = Field(default=5.0, gt=0, description="How long Kafka may take; then 503.")
    max_in_flight: int = Field(default=1_000, ge=1, description="Callbacks at a time; more are answered 503.")
    projector_batch: int = Field(default=500, ge=1, le=5_000, description="Receipts per transaction.")
