"""Quotas that operators have set instead of an account's settings (migration 0004). In the caller's transaction."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.postgres.audit_log import Actor, record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

AUDIT_KIND: Final = "quota"

_SQL: Final = load_queries("control")


@dataclass(frozen=True, slots=True)
class SaidQuota:
    """Of a whole account; None: as in the settings."""

    account: str
    per_second: float | None
    reserve_per_second: float | None
    updated_by: str
    updated_at: datetime


async def set_quota(
    connection: Connection, actor: Actor, account: str, per_second: float | None, reserve_per_second: float | None
) -> None:
    """What is not said stays as it was. Acts with the commit, within a second on all workers."""
    row = await connection.fetchrow(_SQL["set_quota"], account, per_second, reserve_per_second, actor.name[:128])
    await record(connection, actor, "updated", AUDIT_KIND, account, dict(row or {}))


async def unset_quota(connection: Connection, actor: Actor, account: str) -> bool:
    """Back to the settings. False: nothing was set."""
    row = await connection.fetchrow(_SQL["unset_quota"], account)
    if row is None:
        return False
    await record(connection, actor, "deleted", AUDIT_KIND, account, dict(row))
    return True


async def said_quotas(connection: Connection) -> tuple[SaidQuota, ...]:
    """All of them, by account."""
    return tuple(SaidQuota(**row) for row in await connection.fetch(_SQL["quotas_said"]))
