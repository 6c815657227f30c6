"""What every provider's settings have in common: whether it is configured, its quota, its certificate authority."""

from abc import abstractmethod
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings


class ProviderSettings(BaseSettings):
    """Base of a provider's settings; each sets its prefix. A provider without its settings is not configured, no error.

    The reserve is the part of the quota that only the critical class may use (semantics.md section 5).
    """

    ca_file: Path | None = Field(
        default=None, description="PEM of a certificate authority to trust beside the well-known ones."
    )
    concurrency: int = Field(default=50, ge=1, le=2000, description="Messages on the wire at once, per worker.")
    quota_per_second: float | None = Field(default=None, gt=0, description="Messages a second by contract; unset: any.")
    quota_reserve_per_second: float = Field(default=0, ge=0, description="Of these, for the critical class alone.")

    @property
    @abstractmethod
    def configured(self) -> bool:
        """Whether the settings name an account to send with."""
