"""Pauses as operators begin, end and list them. Whatever changes is in the audit log, in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from shared.core.control import Pause, PauseKind
from shared.postgres.audit_log import Actor, record
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("control")
AUDIT_KIND: Final = "pause"


@dataclass(frozen=True, slots=True)
class ListedPause:
    """One that is in force, or ended with deliveries to release still. waiting: deliveries in `deferred`; a lane's
    hints, which stay in Kafka, are not among them. release_per_second None: the relay's own pace.
    """

    id: UUID
    kind: PauseKind
    key: str
    note: str
    paused_by: str
    paused_at: datetime
    resumed_by: str | None
    resumed_at: datetime | None
    release_per_second: float | None
    waiting: int


async def begin_pause(connection: Connection, actor: Actor, kind: PauseKind, key: str, note: str) -> tuple[Pause, bool]:
    """Put a pause in force; that which is, and whether this call made it. In the caller's transaction.

    key: as `Pause` says, known to exist. Where such a pause is in force it stays as it is, note and all.
    """
    made = await connection.fetchrow(_SQL["begin_pause"], kind, key, note, actor.name[:128])
    if made is None:
        there = await connection.fetchrow(_SQL["pause_in_force"], kind, key)
        if there is not None:
            return _pause(there), False
        return await begin_pause(connection, actor, kind, key, note)  # it was ended between the two statements
    pause = _pause(made)
    await record(connection, actor, "paused", AUDIT_KIND, f"{kind} {key}", {"id": str(pause.id), "note": note})
    return pause, True


async def end_pause(
    connection: Connection, actor: Actor, kind: PauseKind, key: str, *, per_second: float | None
) -> Pause | None:
    """Let go of what waits under the pause in force, at a pace (None: the relay's); None: there is no such pause."""
    ended = await connection.fetchrow(_SQL["end_pause"], kind, key, actor.name[:128], per_second)
    if ended is None:
        return None
    pause = _pause(ended)
    await record(
        connection, actor, "resumed", AUDIT_KIND, f"{kind} {key}", {"id": str(pause.id), "perSecond": per_second}
    )
    return pause


async def list_pauses(connection: Connection) -> Sequence[ListedPause]:
    """Oldest first."""
    rows = await connection.fetch(_SQL["list_pauses"])
    return [ListedPause(**{**row, "kind": PauseKind(row["kind"])}) for row in rows]


async def known_types(connection: Connection) -> Sequence[str]:
    return [row["type"] for row in await connection.fetch(_SQL["known_types"])]


async def known_templates(connection: Connection, type_name: str) -> Sequence[tuple[str, str, int]]:
    """(channel, locale, version) of those that were ever in use, of each channel and locale the newest first."""
    rows = await connection.fetch(_SQL["known_templates"], type_name)
    return [(row["channel"], row["locale"], row["version"]) for row in rows]


def _pause(row: asyncpg.Record) -> Pause:
    return Pause(**{**row, "kind": PauseKind(row["kind"])})
