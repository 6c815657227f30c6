"""Where Redis is and how it is used (`ULAK_REDIS_*`)."""

from pydantic import Field
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class RedisSettings(BaseSettings):
    """Redis 7 or Valkey. The URL may hold a password, so repr hides it."""

    model_config = settings_config("ULAK_REDIS_")

    url: str = Field(repr=False, pattern=r"^(redis|rediss|unix)://", description="redis://user:password@host:port/db.")
    key_prefix: str = Field(default="ulak:", max_length=64, description="Start of every key.")
    timeout_sec: float = Field(
        default=0.5, gt=0, description="How long a command may take before Redis counts as unreachable."
    )
    retry_sec: float = Field(default=1.0, gt=0, description="How long an unreachable Redis is left alone.")
