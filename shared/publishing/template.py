"""From draft to use and back. Every call works within the caller's transaction and holds the catalogue's lock in it,
and leaves a line in the audit log; the caller commits, or rolls back for a dry run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.content.check import TemplateReport, check_template
from shared.content.problem import TemplateProblem
from shared.core.catalogue import NotificationType
from shared.postgres.audit_log import Actor, record
from shared.postgres.pool import Connection
from shared.postgres.template import (
    NewTemplate,
    StoredTemplate,
    TemplateKey,
    TemplateState,
    activate,
    active_template,
    add_draft,
    change_draft,
    discard_draft,
    lock_catalogue,
    template_version,
    template_versions,
)
from shared.publishing.error import NoEarlierVersionError, NoSuchVersionError, NotADraftError, UnpublishableError
from shared.wire.channel import DEFAULT_CHANNELS

KIND: Final = "template"


@dataclass(frozen=True, slots=True)
class Draft:
    """What an author wrote."""

    key: TemplateKey
    parts: Mapping[str, str]
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """A template as it is stored now, and what its check found: a draft may have problems, a published one has none
    but warnings.
    """

    template: StoredTemplate
    report: TemplateReport

    @property
    def warnings(self) -> Sequence[TemplateProblem]:
        return self.report.warnings


def report_on(entry: NotificationType, draft: Draft, *, profile: str) -> TemplateReport:
    """The check of what an author wrote, without storing it. profile: the country whose demands marketing meets.

    ValueError for a channel that there is not.
    """
    channel = DEFAULT_CHANNELS.spec(draft.key.channel)
    return check_template(entry, channel, draft.key.locale, draft.parts, draft.options, profile=profile)


async def draft_template(
    connection: Connection, entry: NotificationType, draft: Draft, by: Actor, *, profile: str
) -> Checked:
    """Store the next version as a draft, whatever its check finds."""
    await lock_catalogue(connection)
    report = report_on(entry, draft, profile=profile)
    stored = await add_draft(connection, _new(draft, report), by.name)
    await record(connection, by, "drafted", KIND, _name(stored))
    return Checked(stored, report)


async def redraft_template(
    connection: Connection, entry: NotificationType, draft: Draft, version: int, by: Actor, *, profile: str
) -> Checked:
    """Change a draft. Raises NoSuchVersionError, NotADraftError."""
    await lock_catalogue(connection)
    await _draft(connection, draft.key, version)
    report = report_on(entry, draft, profile=profile)
    stored = await change_draft(connection, version, _new(draft, report))
    assert stored is not None  # the lock keeps it a draft
    await record(connection, by, "updated", KIND, _name(stored))
    return Checked(stored, report)


async def discard_template(connection: Connection, key: TemplateKey, version: int, by: Actor) -> None:
    """Throw a draft away. Raises NoSuchVersionError, NotADraftError."""
    await lock_catalogue(connection)
    stored = await _draft(connection, key, version)
    await discard_draft(connection, key, version)
    await record(connection, by, "discarded", KIND, _name(stored))


async def publish_template(
    connection: Connection, entry: NotificationType, key: TemplateKey, version: int, by: Actor, *, profile: str
) -> Checked:
    """Make a draft the active version; from then on it never changes. The active one again is no change.

    It is checked and prepared anew, by the type as it is now. Raises NoSuchVersionError, UnpublishableError, and
    NotADraftError for a version that was active once: that is what rolling back is for.
    """
    await lock_catalogue(connection)
    stored = await _version(connection, key, version)
    report = report_on(entry, Draft(key, stored.parts, stored.options), profile=profile)
    if stored.active:
        return Checked(stored, report)
    if stored.state is not TemplateState.DRAFT:
        raise NotADraftError(key, version)
    if report.errors:
        raise UnpublishableError(key, report.errors)
    await change_draft(connection, version, _new(Draft(key, stored.parts, stored.options), report))
    before = await active_template(connection, key)
    published = await activate(connection, key, version, by.name)
    await record(connection, by, "published", KIND, _name(published), _instead(before))
    return Checked(published, report)


async def roll_back_template(connection: Connection, key: TemplateKey, to: int | None, by: Actor) -> StoredTemplate:
    """Make an earlier published version active again: `to`, else the newest one before the active one.

    Nothing is checked again: going back must work when it is needed most. Raises NoSuchVersionError for one that was
    never published, NoEarlierVersionError.
    """
    await lock_catalogue(connection)
    versions = await template_versions(connection, key)
    active = next((stored for stored in versions if stored.active), None)
    published = [stored for stored in versions if stored.state is TemplateState.PUBLISHED and not stored.active]
    if to is None:
        ceiling = None if active is None else active.version
        target = next((stored for stored in published if ceiling is None or stored.version < ceiling), None)
        if target is None:
            raise NoEarlierVersionError(key)
    else:
        if active is not None and active.version == to:
            return active
        target = next((stored for stored in published if stored.version == to), None)
        if target is None:
            raise NoSuchVersionError(key, to)
    rolled_back = await activate(connection, key, target.version, by.name)
    await record(connection, by, "rolled_back", KIND, _name(rolled_back), _instead(active))
    return rolled_back


async def _version(connection: Connection, key: TemplateKey, version: int) -> StoredTemplate:
    stored = await template_version(connection, key, version)
    if stored is None:
        raise NoSuchVersionError(key, version)
    return stored


async def _draft(connection: Connection, key: TemplateKey, version: int) -> StoredTemplate:
    stored = await _version(connection, key, version)
    if stored.state is not TemplateState.DRAFT:
        raise NotADraftError(key, version)
    return stored


def _new(draft: Draft, report: TemplateReport) -> NewTemplate:
    key = draft.key
    return NewTemplate(
        *(key.type_name, key.channel, key.locale, draft.parts, report.parameters, draft.options, report.prepared)
    )


def _name(stored: StoredTemplate) -> str:
    return f"{stored.key} v{stored.version}"


def _instead(before: StoredTemplate | None) -> Mapping[str, Any]:
    return {} if before is None else {"instead_of": before.version}
