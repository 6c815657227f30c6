"""Where PostgreSQL is and how it is used."""

from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from shared.runtime.settings import settings_config


class PostgresSettings(BaseSettings):
    """Read in composition roots. The DSN may hold a password, so repr hides it."""

    model_config = settings_config("ULAK_POSTGRES_")

    dsn: str = Field(repr=False, description="postgresql://user:password@host:port/database of the primary.")
    pool_size: int = Field(default=10, ge=1, le=500, description="Most connections of one pool.")
    connect_timeout_sec: float = Field(default=5.0, gt=0, description="How long opening one connection may take.")
    command_timeout_sec: float = Field(
        default=30.0, gt=0, description="How long one statement may take before it is cancelled."
    )
    statement_cache_size: int = Field(
        default=512,
        ge=0,
        description="Prepared statements kept per connection; 0 behind a pooler in transaction mode (case O5).",
    )

    @field_validator("dsn")
    @classmethod
    def _is_postgres_url(cls, dsn: str) -> str:
        try:
            parts = urlsplit(dsn)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in {"postgresql", "postgres"}:
            raise ValueError("must be a URL like postgresql://user:password@host:5432/database")
        return dsn


def shown(dsn: str) -> str:
    """host:port/database of a DSN for messages; user and password are left out."""
    try:
        parts = urlsplit(dsn)
        place = f"{parts.hostname or 'local socket'}:{parts.port or 5432}"
    except ValueError:
        return "the server of ULAK_POSTGRES_DSN"
    return f"{place}{parts.path or '/'}"
