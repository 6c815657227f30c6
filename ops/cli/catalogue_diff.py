"""What a push would change, line by line: the files against what the database has. Reads only."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from shared.core.catalogue import EventMapping
from shared.core.type_definition import type_body
from shared.postgres.catalogue_write import Push
from shared.postgres.notification_type import NewType
from shared.postgres.template import StoredTemplate, TemplateKey
from shared.publishing.difference import difference, written


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that would change: its lines as a unified diff, without the two headers. before None: it is new."""

    kind: str
    name: str
    is_new: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database has of what the files may name. templates: the active ones."""

    types: Mapping[str, NewType]
    mappings: Mapping[str, EventMapping]
    templates: Mapping[TemplateKey, StoredTemplate]


def differences(push: Push, stored: Stored) -> Iterator[Difference]:
    """In the order of the files' kinds and names; what would stay as it is is left out."""
    for new in sorted(push.types, key=lambda entry: entry.type.name):
        was = stored.types.get(new.type.name)
        yield from _compared("type", new.type.name, None if was is None else _type(was), _type(new))
    for mapping in sorted(push.mappings, key=lambda entry: entry.name):
        known = stored.mappings.get(mapping.name)
        yield from _compared("mapping", mapping.name, None if known is None else asdict(known), asdict(mapping))
    for template in sorted(push.templates, key=lambda entry: entry.key):
        active = stored.templates.get(template.key)
        before = None if active is None else written(active)
        yield from _compared("template", str(template.key), before, written(template))


def _type(entry: NewType) -> Mapping[str, Any]:
    return type_body(entry.type, entry.retention_days)


def _compared(kind: str, name: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Iterator[Difference]:
    if before != after:
        yield Difference(kind, name, before is None, tuple(difference(before or {}, after)))
