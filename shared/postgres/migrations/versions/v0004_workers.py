"""Workers: pauses, quotas, drains, what became of providers, and what a message cost."""

from shared.postgres.migrate import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_sql("0004_workers.sql")
