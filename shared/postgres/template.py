"""Templates and their life: a draft that may change, then a version that never does, and of those one that is active.

Writers hold the catalogue's lock (`lock_catalogue`) from before they read until their transaction ends, so that what
they saw is what they change. Who did what is the audit log's (shared/postgres/audit_log.py).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

import asyncpg
import orjson

from shared.core.catalogue import Template
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries


class TemplateState(StrEnum):
    DRAFT = "draft"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, order=True)
class TemplateKey:
    """What versions are versions of. Ordered as lists are."""

    type_name: str
    channel: str
    locale: str

    def __str__(self) -> str:
        return f"{self.type_name} {self.channel} {self.locale}"


@dataclass(frozen=True, slots=True)
class NewTemplate:
    """Checked parts of one template, as its author wrote them.

    prepared: what is rendered, where preparing changed the parts (CSS inlined, text made from HTML). parameters: the
    names that a request must bring.
    """

    type_name: str
    channel: str
    locale: str
    parts: Mapping[str, str]
    parameters: frozenset[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    prepared: Mapping[str, str] | None = None

    @property
    def key(self) -> TemplateKey:
        return TemplateKey(self.type_name, self.channel, self.locale)

    @property
    def checksum(self) -> bytes:
        """Of what the author decides: the same again is no new version."""
        written = [dict(self.parts), dict(self.options)] if self.options else dict(self.parts)
        return hashlib.sha256(orjson.dumps(written, option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    """One version. revision counts the changes of a draft and is what If-Match compares."""

    key: TemplateKey
    version: int
    state: TemplateState
    active: bool
    parts: Mapping[str, str]
    prepared: Mapping[str, str] | None
    options: Mapping[str, Any]
    parameters: frozenset[str]
    checksum: bytes
    revision: int
    created_at: datetime
    created_by: str
    published_at: datetime | None
    published_by: str | None

    @property
    def renderable(self) -> Template:
        """As the renderer takes it."""
        return Template(
            self.key.type_name,
            self.key.channel,
            self.key.locale,
            self.version,
            self.parts if self.prepared is None else self.prepared,
            self.parameters,
            self.options,
        )


async def lock_catalogue(connection: Connection) -> None:
    """One writer at a time, until the transaction ends."""
    await connection.execute(load_queries("template")["lock_catalogue"])


async def template_versions(connection: Connection, key: TemplateKey) -> Sequence[StoredTemplate]:
    """All versions, the newest first."""
    rows = await connection.fetch(load_queries("template")["versions"], key.type_name, key.channel, key.locale)
    return [_stored(row) for row in rows]


async def template_version(connection: Connection, key: TemplateKey, version: int) -> StoredTemplate | None:
    row = await connection.fetchrow(
        load_queries("template")["version"], key.type_name, key.channel, key.locale, version
    )
    return None if row is None else _stored(row)


async def active_template(connection: Connection, key: TemplateKey) -> StoredTemplate | None:
    row = await connection.fetchrow(load_queries("template")["active"], key.type_name, key.channel, key.locale)
    return None if row is None else _stored(row)


async def active_templates(connection: Connection) -> Sequence[StoredTemplate]:
    """All that are in use, by key."""
    return [_stored(row) for row in await connection.fetch(load_queries("template")["all_active"])]


async def list_templates(
    connection: Connection,
    *,
    after: tuple[TemplateKey, int] | None,
    limit: int,
    type_name: str | None = None,
    channel: str | None = None,
    locale: str | None = None,
    state: TemplateState | None = None,
    active: bool | None = None,
) -> Sequence[StoredTemplate]:
    """At most `limit` versions behind `after`, by key and version; the filters that are given must all hold."""
    key, version = after or (TemplateKey("", "", ""), 0)
    rows = await connection.fetch(
        load_queries("template")["page"],
        *(key.type_name, key.channel, key.locale, version),
        *(type_name, channel, locale, state, active),
        limit,
    )
    return [_stored(row) for row in rows]


async def add_draft(connection: Connection, new: NewTemplate, by: str) -> StoredTemplate:
    """The next version, as a draft. asyncpg's ForeignKeyViolationError if there is no such type."""
    row = await connection.fetchrow(load_queries("template")["add_draft"], *_written(new), by)
    return _stored(row)


async def change_draft(connection: Connection, version: int, new: NewTemplate) -> StoredTemplate | None:
    """The draft as it is now; None if that version is no draft."""
    row = await connection.fetchrow(load_queries("template")["change_draft"], *_written(new), version)
    return None if row is None else _stored(row)


async def discard_draft(connection: Connection, key: TemplateKey, version: int) -> bool:
    """False if that version is no draft."""
    status = await connection.execute(
        load_queries("template")["discard_draft"], key.type_name, key.channel, key.locale, version
    )
    return status == "DELETE 1"


async def activate(connection: Connection, key: TemplateKey, version: int, by: str) -> StoredTemplate:
    """Make a version the one that is used: a draft is published by it, an older published one is rolled back to.

    What another version was, it stays, but for being active. The version must exist. From the next reading of the
    catalogue on it is what new notifications are rendered with; rendered ones keep their words.
    """
    queries = load_queries("template")
    await connection.execute(queries["retire"], key.type_name, key.channel, key.locale, version)
    row = await connection.fetchrow(queries["activate"], key.type_name, key.channel, key.locale, version, by)
    return _stored(row)


def _written(new: NewTemplate) -> tuple[Any, ...]:
    return (
        *(new.type_name, new.channel, new.locale, dict(new.parts)),
        None if new.prepared is None else dict(new.prepared),
        *(dict(new.options), sorted(new.parameters), new.checksum),
    )


def _stored(row: asyncpg.Record | None) -> StoredTemplate:
    assert row is not None
    return StoredTemplate(
        key=TemplateKey(row["type"], row["channel"], row["locale"]),
        version=row["version"],
        state=TemplateState(row["state"]),
        active=row["active"],
        parts=row["parts"],
        prepared=row["prepared"],
        options=row["options"],
        parameters=frozenset(row["parameters"]),
        checksum=row["checksum"],
        revision=row["revision"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        published_at=row["published_at"],
        published_by=row["published_by"],
    )
