"""The producer schema's second version, and what durable e-mail needs beside it."""

from shared.postgres.migrate import run_producer_step, run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_producer_step("0002_durable_email.sql")
    run_sql("0002_durable_email.sql")
