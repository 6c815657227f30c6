"""Is the schema one that this release can work with? Asked at every service's start, without loading alembic."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import asyncpg

from shared.postgres.errors import SchemaOutdatedError, translated
from shared.postgres.partition import require_partition
from shared.postgres.pool import Connection, Pool

_VERSIONS: Final = Path(__file__).parent / "migrations" / "versions"


def known_revisions() -> tuple[str, ...]:
    """All revisions this release brings, oldest first: `v0001_foundation.py` is 0001."""
    return tuple(sorted(path.name[1:].partition("_")[0] for path in _VERSIONS.glob("v[0-9]*_*.py")))


def head_revision() -> str:
    """The revision this release needs at least."""
    return known_revisions()[-1]


async def current_revision(connection: Connection | Pool) -> str | None:
    """The database's revision, None if Ulak's schema is not there."""
    try:
        revision: str | None = await connection.fetchval("SELECT version_num FROM ulak.alembic_version")
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        return None
    return revision


def check_revision(current: str | None) -> None:
    """SchemaOutdatedError if this release cannot work on it. A newer schema is fine: releases N and N+1 share one."""
    if current is None:
        raise SchemaOutdatedError("Ulak's schema is not in this database: run `ulak db migrate`")
    head = head_revision()
    if current in known_revisions() and current != head:
        raise SchemaOutdatedError(
            f"the schema is at revision {current}, this release needs {head}: run `ulak db migrate`"
        )


async def require_revision(pool: Pool) -> None:
    """The start check of whoever makes the partitions itself. Raises SchemaOutdatedError or UnavailableError."""
    with translated():
        check_revision(await current_revision(pool))


async def require_schema(pool: Pool, now: datetime) -> None:
    """A service's start check: the schema is recent enough and today's (UTC) partitions are there.

    Raises SchemaOutdatedError or PartitionMissingError, both naming the command that helps, or UnavailableError.
    """
    await require_revision(pool)
    await require_partition(pool, now.astimezone(UTC).date())
