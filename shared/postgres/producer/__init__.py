"""The schema that a producing service has in its own database: what `ulak outbox ddl` prints and the relay reads.

A row of files, each idempotent, each a step from the version before; released ones are never edited. Ulak's own
database has the same tables, by its migrations, so that one statement reads both.
"""

from importlib.resources import files
from typing import Final, Literal

import asyncpg

from shared.postgres.errors import SchemaOutdatedError
from shared.postgres.pool import Connection, Pool

STEPS: Final = ("0001_outbox.sql", "0002_durable_email.sql")
VERSION: Final = len(STEPS)
"""What this release's relay needs."""
_CHOICE: Final = "CREATE OR REPLACE FUNCTION ulak.email_model() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT ''{}''';"


def ddl(*, email_model: Literal["A", "B"] | None = None) -> str:
    """All steps in one transaction: for a new database and for any older version alike.

    email_model: what messages get that name no model; None leaves this database's choice as it is (B at first).
    """
    choice = () if email_model is None else (_CHOICE.format(email_model),)
    return "\n".join(("BEGIN;", *map(step, STEPS), *choice, "COMMIT;\n"))


def step(name: str) -> str:
    """One step's statements."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


async def installed_version(connection: Connection | Pool) -> int | None:
    """The version in this database, None if there is none."""
    try:
        version: int | None = await connection.fetchval("SELECT max(version) FROM ulak.producer_schema")
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return None
    return version


async def require_version(connection: Connection | Pool) -> None:
    """SchemaOutdatedError, with the remedy, if this release cannot read the database. A newer version is fine."""
    version = await installed_version(connection)
    if version is None or version < VERSION:
        found = "no producer schema" if version is None else f"producer schema {version}"
        raise SchemaOutdatedError(
            f"the database has {found}, this release needs {VERSION}: run `ulak outbox ddl | psql <its DSN>`"
        )
