"""Pauses, quotas and drains, read in one go (tables of migration 0004)."""

from typing import Final

from shared.core.control import CallerQuota, Controls, Drain, Pause, PauseKind, QuotaOverride
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries

_SQL: Final = load_queries("control")


async def control_revision(pool: Pool) -> int:
    """The number that every change raises; UnavailableError if PostgreSQL cannot be asked."""
    with translated():
        return int(await pool.fetchval(_SQL["revision"]))


async def load_controls(pool: Pool) -> Controls:
    """All of it and its revision, in one snapshot; UnavailableError if PostgreSQL cannot be asked."""
    with translated():
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            return await read_controls(connection)


async def read_controls(connection: Connection) -> Controls:
    """The same within the caller's transaction, and in one snapshot if that one sees one."""
    revision = await connection.fetchval(_SQL["revision"])
    pauses = await connection.fetch(_SQL["pauses"])
    quotas = await connection.fetch(_SQL["quotas"])
    caller_quotas = await connection.fetch(_SQL["caller_quotas"])
    drains = await connection.fetch(_SQL["drains"])
    return Controls(
        revision=revision,
        pauses=tuple(Pause(**{**row, "kind": PauseKind(row["kind"])}) for row in pauses),
        quotas={(row["account"], row["scope"]): QuotaOverride(**row) for row in quotas},
        caller_quotas={(row["api_key_id"], row["type"]): CallerQuota(**row) for row in caller_quotas},
        drains={row["account"]: Drain(**row) for row in drains},
    )
