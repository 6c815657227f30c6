"""Schema revisions. The SQL of each is a file of its own; `env.py` is what alembic runs."""
