"""The decision's facts: policies of types, published templates, consents, caps, windows, the inbox, administration."""

from shared.postgres.migrate import run_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_sql("0003_decision.sql")
