"""Where PostgreSQL is and how it is used."""

from typing import Self

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from shared.postgres.dsn import is_dsn
from shared.postgres.source import SourceSpec, parse_sources
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
        if not is_dsn(dsn):
            raise ValueError("must be a URL like postgresql://user:password@host:5432/database")
        return dsn

    def for_source(self, spec: SourceSpec) -> Self:
        """How a source's database is used: by the same limits, without prepared statements behind a pooler (O5)."""
        cached = 0 if spec.pooled else self.statement_cache_size
        return self.model_copy(update={"dsn": spec.dsn, "statement_cache_size": cached})


class SourceSettings(BaseSettings):
    """Read by the relay and by commands that look into its sources. repr hides the DSNs: they may hold passwords."""

    model_config = settings_config("ULAK_RELAY_")

    sources: str = Field(
        default="",
        repr=False,
        description="Other databases with an outbox (`ulak outbox ddl`): DSNs separated by commas or spaces, or a JSON "
        'list of `{"name", "dsn"}` with, where wanted, `application`, `poolSize`, `batch`, `pooled`, `listenDsn`, '
        "`emailModelA` (docs/data.md).",
    )

    @field_validator("sources")
    @classmethod
    def _readable(cls, text: str) -> str:
        parse_sources(text)
        return text

    @property
    def specs(self) -> tuple[SourceSpec, ...]:
        return parse_sources(self.sources)
