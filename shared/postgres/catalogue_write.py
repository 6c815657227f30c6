"""Writing applications, types, templates and mappings: all of a push or nothing, and the same push twice is nothing."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from shared.core.catalogue import EventMapping, NotificationType
from shared.postgres.errors import PostgresError, translated
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries


class SourceTakenError(PostgresError):
    """A CloudEvents source that another application has already: an event has one application."""


@dataclass(frozen=True, slots=True)
class Application:
    """A caller of Ulak; `sources` are the CloudEvents sources that are it, `*` takes what nobody names."""

    name: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewType:
    type: NotificationType
    retention_days: int = 90


@dataclass(frozen=True, slots=True)
class NewTemplate:
    """Checked parts of one template; it becomes the next version if its parts are not the active ones already."""

    type_name: str
    channel: str
    locale: str
    parts: Mapping[str, str]
    parameters: frozenset[str]

    @property
    def checksum(self) -> bytes:
        return hashlib.sha256(orjson.dumps(dict(self.parts), option=orjson.OPT_SORT_KEYS)).digest()


@dataclass(frozen=True, slots=True)
class Push:
    """What is to be in the catalogue afterwards. What a push does not name stays as it is."""

    applications: tuple[Application, ...] = ()
    types: tuple[NewType, ...] = ()
    templates: tuple[NewTemplate, ...] = ()
    mappings: tuple[EventMapping, ...] = field(default=())


class Action(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one entry. version: the active one of a template."""

    kind: str
    name: str
    action: Action
    version: int | None = None


async def push_catalogue(connection: Connection, push: Push) -> list[Change]:
    """Write everything, in the caller's transaction; the caller commits, or rolls back for a dry run.

    Raises SourceTakenError, and asyncpg's ForeignKeyViolationError for a type that neither push nor database has:
    callers check names first.
    """
    queries = load_queries("catalogue_write")
    changes: list[Change] = []
    with translated():
        await connection.execute(queries["lock_catalogue"])
        for application in push.applications:
            await _refuse_taken(connection, queries, application)
            row = await connection.fetchrow(queries["put_application"], application.name, application.sources)
            changes.append(Change("application", application.name, _action(row)))
        for new in push.types:
            entry = new.type
            row = await connection.fetchrow(
                queries["put_type"],
                entry.name,
                entry.category,
                entry.message_class,
                entry.default_channels,
                int(entry.ttl.total_seconds()),
                dict(entry.promises),
                new.retention_days,
            )
            changes.append(Change("type", entry.name, _action(row)))
        changes += [await _put_template(connection, queries, template) for template in push.templates]
        for mapping in push.mappings:
            row = await connection.fetchrow(
                queries["put_mapping"],
                mapping.name,
                mapping.event_type,
                mapping.notification_type,
                mapping.role,
                mapping.recipient,
                dict(mapping.params),
                mapping.business_key,
            )
            changes.append(Change("mapping", mapping.name, _action(row)))
    return changes


async def _refuse_taken(connection: Connection, queries: Mapping[str, str], application: Application) -> None:
    for owner in await connection.fetch(queries["source_owners"], application.sources):
        if owner["name"] != application.name:
            taken = sorted(set(owner["sources"]) & set(application.sources))
            raise SourceTakenError(
                f"source {taken[0]!r} belongs to application {owner['name']!r}: take it away there first"
            )


async def _put_template(connection: Connection, queries: Mapping[str, str], template: NewTemplate) -> Change:
    name = f"{template.type_name} {template.channel} {template.locale}"
    address = (template.type_name, template.channel, template.locale)
    row = await connection.fetchrow(queries["template_versions"], *address)
    latest = (row["latest"] if row else None) or 0
    if latest and row and row["active_checksum"] == template.checksum:
        return Change("template", name, Action.UNCHANGED, latest)
    await connection.execute(queries["retire_template"], *address)
    await connection.execute(
        queries["add_template"],
        *address,
        latest + 1,
        dict(template.parts),
        sorted(template.parameters),
        template.checksum,
    )
    return Change("template", name, Action.UPDATED if latest else Action.CREATED, latest + 1)


def _action(row: Any) -> Action:
    if row is None:
        return Action.UNCHANGED
    return Action.CREATED if row["created"] else Action.UPDATED


def changed(changes: Sequence[Change]) -> bool:
    return any(change.action is not Action.UNCHANGED for change in changes)
