"""Who changed what, and when: one line a change, written in the change's own transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from shared.core.identifier import lowest_id_at
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""No id is of a moment before it."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, as the log names them: `api key <name> of <application>`, `operator <login>`, `user`, or a service."""

    name: str


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line, as `record` wrote it."""

    id: UUID
    at: datetime
    actor: str
    action: str
    kind: str
    key: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines are asked for; None is any. since and until (aware): written from then on, and before then."""

    kind: str | None = None
    key: str | None = None
    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def record(
    connection: Connection, actor: Actor, action: str, kind: str, key: str, detail: Mapping[str, Any] | None = None
) -> None:
    """Append one line, within the caller's transaction: it is there exactly if the change is.

    action: past tense (created, updated, deleted, published, rolled_back, revoked, imported). kind: what it was done
    to, singular (notification_type, template, recipient). key: which one; a name or an id, never an address, a token
    or a secret, and neither is in detail, which says what changed without personal data.
    """
    await connection.execute(load_queries("audit_log")["record"], actor.name[:128], action, kind, key, detail or {})


async def read_log(
    connection: Connection, wanted: AuditFilter, *, before: UUID | None, limit: int
) -> Sequence[AuditLine]:
    """At most `limit` lines that fit, the newest first, older than the id `before`."""
    rows = await connection.fetch(
        load_queries("audit_log")["page"],
        before,
        wanted.kind,
        wanted.key,
        wanted.actor,
        None if wanted.since is None else lowest_id_at(max(wanted.since, _BEGINNING)),
        None if wanted.until is None else lowest_id_at(max(wanted.until, _BEGINNING)),
        limit,
    )
    return [AuditLine(**dict(row)) for row in rows]
