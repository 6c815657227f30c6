"""Writing the catalogue with its applications: all of a push or nothing, and the same push twice is nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.core.catalogue import EventMapping
from shared.core.ports import SenderProfile
from shared.core.sealing import KeyRing
from shared.postgres.application import Application, put_application
from shared.postgres.audit_log import Actor, record
from shared.postgres.errors import translated
from shared.postgres.event_mapping import put_mapping
from shared.postgres.notification_type import NewType, put_type
from shared.postgres.pool import Connection
from shared.postgres.sender_profile import put_sender
from shared.postgres.template import NewTemplate, activate, active_template, add_draft, lock_catalogue


@dataclass(frozen=True, slots=True)
class NewSender:
    """A checked profile; its key is plain here and sealed in the database."""

    name: str
    profile: SenderProfile


@dataclass(frozen=True, slots=True)
class Push:
    """What is to be in the catalogue afterwards. What a push does not name stays as it is."""

    applications: tuple[Application, ...] = ()
    senders: tuple[NewSender, ...] = ()
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


PUSH: Final = Actor("push")
"""Whoever pushes without a name: tests and the demo."""
_AUDITED: Final = {"type": "notification_type", "mapping": "event_mapping", "sender": "sender_profile"}


async def push_catalogue(
    connection: Connection, push: Push, ring: KeyRing | None = None, *, by: Actor = PUSH
) -> list[Change]:
    """Write everything, in the caller's transaction; the caller commits, or rolls back for a dry run.

    ring seals the senders' keys; a push without such keys needs none.

    Raises SourceTakenError, and asyncpg's ForeignKeyViolationError for a type that neither push nor database has:
    callers check names first.
    """
    changes: list[Change] = []
    with translated():
        await lock_catalogue(connection)
        for application in push.applications:
            created = await put_application(connection, application)
            changes.append(Change("application", application.name, _action(created)))
        for sender in push.senders:
            created = await put_sender(connection, sender.name, sender.profile, ring)
            changes.append(Change("sender", sender.name, _action(created)))
        changes += [await _put_type(connection, new) for new in push.types]
        changes += [await _put_template(connection, template, by.name) for template in push.templates]
        for mapping in push.mappings:
            changes.append(Change("mapping", mapping.name, _action(await put_mapping(connection, mapping))))
        for change in changes:
            if change.action is not Action.UNCHANGED:
                version = {} if change.version is None else {"version": change.version}
                await record(
                    connection, by, change.action, _AUDITED.get(change.kind, change.kind), change.name, version
                )
    return changes


async def _put_type(connection: Connection, new: NewType) -> Change:
    put = await put_type(connection, new)
    action = Action.UNCHANGED if put is None else Action.CREATED if put.created else Action.UPDATED
    return Change("type", new.type.name, action)


async def _put_template(connection: Connection, template: NewTemplate, by: str) -> Change:
    """Published at once: files are reviewed before they are pushed. What was drafted meanwhile stays a draft."""
    current = await active_template(connection, template.key)
    if current is not None and current.checksum == template.checksum:
        return Change("template", str(template.key), Action.UNCHANGED, current.version)
    draft = await add_draft(connection, template, by)
    await activate(connection, template.key, draft.version, by)
    action = Action.CREATED if current is None else Action.UPDATED
    return Change("template", str(template.key), action, draft.version)


def _action(created: bool | None) -> Action:
    if created is None:
        return Action.UNCHANGED
    return Action.CREATED if created else Action.UPDATED


def changed(changes: Sequence[Change]) -> bool:
    return any(change.action is not Action.UNCHANGED for change in changes)
