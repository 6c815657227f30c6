"""Applications: who calls Ulak, and whose events are whose.

Writers hold the catalogue's lock (`shared.postgres.template.lock_catalogue`) until their transaction ends, so that two
of them cannot take the same source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from shared.postgres.errors import PostgresError
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("application")


class SourceTakenError(PostgresError):
    """A CloudEvents source that another application has already: an event has one application."""


@dataclass(frozen=True, slots=True)
class Application:
    """A caller of Ulak; `sources` are the CloudEvents sources that are it, `*` takes what nobody names."""

    name: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredApplication:
    application: Application
    revision: int
    created_at: datetime


async def stored_application(connection: Connection, name: str) -> StoredApplication | None:
    row = await connection.fetchrow(_SQL["one"], name)
    return None if row is None else _stored(row)


async def list_applications(connection: Connection, *, after: str, limit: int) -> Sequence[StoredApplication]:
    """At most `limit` behind the name `after`, by name."""
    return [_stored(row) for row in await connection.fetch(_SQL["page"], after, limit)]


async def put_application(connection: Connection, application: Application) -> bool | None:
    """Create or change it: True if it was created, None if it was so already. Raises SourceTakenError."""
    for owner in await connection.fetch(_SQL["source_owners"], application.sources):
        if owner["name"] != application.name:
            taken = sorted(set(owner["sources"]) & set(application.sources))
            raise SourceTakenError(
                f"source {taken[0]!r} belongs to application {owner['name']!r}: take it away there first"
            )
    row = await connection.fetchrow(_SQL["put"], application.name, application.sources)
    return None if row is None else bool(row["created"])


def _stored(row: asyncpg.Record) -> StoredApplication:
    return StoredApplication(Application(row["name"], tuple(row["sources"])), row["revision"], row["created_at"])
