"""Settings of the workers (`ULAK_WORKERS_*`)."""

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class WorkerSettings(BaseSettings):
    """What all lanes of a process share."""

    model_config = settings_config("ULAK_WORKERS_")

    count: int = Field(
        default=1,
        ge=1,
        description="Worker processes that share the providers' quotas; each goes on with its part if Redis is away.",
    )
    pool_size: int = Field(
        default=6, ge=1, le=100, description="Database connections per class of the lanes served: critical, tx, bulk."
    )
    batches_in_flight: int = Field(
        default=4, ge=1, le=32, description="Batches of one lane worked on at once, so that sends overlap with queries."
    )
    drain_sec: float = Field(default=25.0, gt=0, description="How long batches under way may take at stop (G1).")
