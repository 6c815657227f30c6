"""The first schema: callers, content, recipients, the hot tables and the small ones that drive work."""

from shared.postgres.migrate import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_sql("0001_foundation.sql")
