"""What can be set about ingest, from `ULAK_INGEST_*`."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class IngestSettings(BaseSettings):
    """Limits of the internal API. The defaults are those of api.md."""

    model_config = settings_config("ULAK_INGEST_")

    max_body_bytes: int = Field(default=256 * 1024, ge=1024, description="Largest body of one request.")
    max_batch_bytes: int = Field(default=5 * 1024 * 1024, ge=1024, description="Largest body of a batch.")
    body_timeout_sec: float = Field(default=10.0, gt=0, description="How long a body may take to arrive.")
    default_rate_per_second: int | None = Field(
        default=None, ge=1, description="Requests a second and process for keys without a rate of their own."
    )
    key_ttl_sec: float = Field(default=5.0, gt=0, description="How long a key, or its absence, is remembered.")
    max_in_flight: int = Field(default=3, ge=1, le=32, description="Group commits on their way at once.")
    max_group: int = Field(default=500, ge=1, le=5000, description="Requests in one group commit at most.")
    max_waiting: int = Field(default=20_000, ge=1, description="Requests that may wait for a commit; above: 503.")
    email_model: Literal["A", "B"] = Field(
        default="B",
        description="How `POST /emails` goes that does not say: A, sent from its table; B, by the ledger and Kafka.",
    )
    import_rows_per_second: int = Field(
        default=5_000, ge=1, description="Lines that all imports of one process take in a second at most."
    )
    import_runs: int = Field(default=2, ge=1, le=16, description="Imports that one process takes lines of at once.")
    import_max_bytes: int = Field(
        default=10 * 1024**3, ge=1024, description="Largest body of one import request, unpacked."
    )
