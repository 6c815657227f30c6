"""Settings of the router, from `ULAK_ROUTER_*`."""

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class RouterSettings(BaseSettings):
    """Batches bound memory and the length of one transaction; two in flight keep the database and this process busy."""

    model_config = settings_config("ULAK_ROUTER_")

    batch_size: int = Field(default=500, ge=1, le=2000, description="Notifications decided in one transaction.")
    max_in_flight: int = Field(default=2, ge=1, le=16, description="Batches worked on at once, per input and class.")
    pool_size: int = Field(
        default=4,
        ge=2,
        le=100,
        description="Database connections per input and class; critical never waits for bulk's.",
    )
    event_topics: tuple[str, ...] = Field(
        default=("domain-events",), description="Topics of CloudEvents to read, without prefix (a JSON list)."
    )
