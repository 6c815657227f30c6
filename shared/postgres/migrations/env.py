"""Run by alembic, with the connection that `shared.postgres.migrate` opened and locked."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema="ulak",
    transaction_per_migration=True,  # what has been reached stays reached when a later revision fails
)
with context.begin_transaction():
    context.run_migrations()
