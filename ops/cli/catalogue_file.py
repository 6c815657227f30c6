"""The catalogue as files: what they may hold, and everything that is wrong with them, by file and field. Reads only.

A folder:  *.yaml with any of `applications`, `senders`, `types`, `mappings`, and templates in `templates/<TYPE>/`:
           `<channel>.<locale>.yaml` with all parts and `options`, or a file a part: `<channel>.<locale>.<part>.txt`,
           `<channel>.<locale>.html`.
A file:    the same keys, and `templates: {TYPE: {<channel>.<locale>: {part: source}}}`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ops.cli.sender_file import SenderEntry, read_sender
from ops.cli.type_file import Name, TypeEntry
from shared.content.check import TemplateReport, check_template
from shared.core.catalogue import EventMapping, NotificationType
from shared.core.type_definition import type_problems
from shared.postgres.application import Application
from shared.postgres.catalogue_write import NewSender, Push
from shared.postgres.notification_type import NewType
from shared.postgres.template import NewTemplate, TemplateKey
from shared.publishing.mapping import mapping_problems, missing_parameters
from shared.publishing.sender import InvalidSenderError
from shared.runtime.fault import faults
from shared.wire.channel import Channels

_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MAX_FILE_BYTES: Final = 1_048_576
OPTIONS: Final = "options"
"""Beside the parts of a template: the channel's own settings."""
SUFFIXES: Final = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to repair. `place` is the field within the file, with dots; '' is the file as a whole."""

    file: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.place + ': ' if self.place else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class CatalogueFiles:
    """What the files say, all that is wrong with them, and what the check of each template found."""

    push: Push
    problems: tuple[Problem, ...] = ()
    reports: Mapping[TemplateKey, TemplateReport] = field(default_factory=dict)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ApplicationEntry(_Entry):
    sources: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(default_factory=list)


class MappingEntry(_Entry):
    event: str = Field(min_length=1, max_length=200)
    type: Name
    recipient: str = Field(min_length=1)
    params: dict[str, str] = Field(default_factory=dict)
    role: str = Field(default="", max_length=32, pattern=r"^[A-Za-z0-9_-]*$")
    business_key: str | None = Field(default=None, alias="businessKey")


class CatalogueDocument(_Entry):
    applications: dict[Name, ApplicationEntry] = Field(default_factory=dict)
    senders: dict[Name, SenderEntry] = Field(default_factory=dict)
    types: dict[Name, TypeEntry] = Field(default_factory=dict)
    mappings: dict[Name, MappingEntry] = Field(default_factory=dict)
    templates: dict[Name, dict[str, dict[str, Any]]] = Field(default_factory=dict)


def read_catalogue_files(
    path: Path,
    channels: Channels,
    *,
    known_types: Mapping[str, NotificationType],
    known_senders: Collection[str] = (),
    profile: str,
) -> CatalogueFiles:
    """Read a folder or one file and check all of it; known types and senders are those the database has already.

    profile: the country whose demands marketing templates meet (`ULAK_DEFAULT_MARKETING_PROFILE`).

    Raises OSError for what cannot be read. Nothing is written anywhere.
    """
    reading = _Reading(channels, profile)
    if path.is_dir():
        for file in sorted(p for p in path.iterdir() if p.suffix in SUFFIXES):
            reading.document(file, file.name)
        reading.template_folder(path)
        if not reading.files:
            reading.problem(path.name, "", "no catalogue here: expected *.yaml files or a templates folder")
    else:
        reading.document(path, path.name)
    return reading.result(known_types, known_senders)


class _Reading:
    def __init__(self, channels: Channels, profile: str) -> None:
        self.channels = channels
        self.profile = profile
        self.files = 0
        self.problems: list[Problem] = []
        self.applications: dict[str, tuple[str, Application]] = {}
        self.senders: dict[str, tuple[str, NewSender]] = {}
        self.types: dict[str, tuple[str, NewType]] = {}
        self.mappings: dict[str, tuple[str, EventMapping]] = {}
        self.parts: dict[tuple[str, str, str], tuple[str, dict[str, Any]]] = {}
        self.reports: dict[TemplateKey, TemplateReport] = {}

    def problem(self, file: str, place: str, message: str) -> None:
        self.problems.append(Problem(file, place, message))

    def document(self, path: Path, file: str) -> None:
        self.files += 1
        content = self._yaml(path, file)
        if content is None:
            return
        try:
            document = CatalogueDocument.model_validate(content)
        except ValidationError as error:
            for place, detail in faults(error.errors(include_url=False, include_input=False)):
                self.problem(file, place, detail)
            return
        for name, application in document.applications.items():
            self._once(
                self.applications, file, f"applications.{name}", name, Application(name, tuple(application.sources))
            )
        for name, sender in document.senders.items():
            self._sender(path, file, name, sender)
        for name, entry in document.types.items():
            self._type(file, name, entry)
        for name, mapping in document.mappings.items():
            self._mapping(file, name, mapping)
        for type_name, by_address in document.templates.items():
            for address, parts in by_address.items():
                channel, _, locale = address.partition(".")
                self._parts(file, f"templates.{type_name}.{address}", (type_name, channel, locale), parts)

    def template_folder(self, root: Path) -> None:
        for path in sorted((root / "templates").glob("*/*")):
            self.files += 1
            file = str(path.relative_to(root))
            pieces = path.name.split(".")
            type_name = path.parent.name
            match pieces:
                case [channel, locale, "yaml" | "yml"]:
                    content = self._yaml(path, file)
                    if content is None:
                        continue
                    if not isinstance(content, dict) or not all(
                        isinstance(k, str) and (isinstance(v, str) or k == OPTIONS) for k, v in content.items()
                    ):
                        self.problem(file, "", "expected parts with their text, like `subject: ...`")
                        continue
                    self._parts(file, "", (type_name, channel, locale), content)
                case [channel, locale, "html"]:
                    self._parts(file, "", (type_name, channel, locale), {"html": self._text(path, file)})
                case [channel, locale, part, "txt"]:
                    self._parts(file, "", (type_name, channel, locale), {part: self._text(path, file)})
                case _:
                    self.problem(
                        file,
                        "",
                        "unknown kind of file: name it <channel>.<locale>.yaml, <channel>.<locale>.html or "
                        "<channel>.<locale>.<part>.txt",
                    )

    def result(self, known_types: Mapping[str, NotificationType], known_senders: Collection[str]) -> CatalogueFiles:
        types = dict(known_types) | {name: new.type for name, (_, new) in self.types.items()}
        templates = list(self._templates(types))
        self._senders_known(known_senders)
        self._mappings_fit(types, templates)
        self._sources_once()
        return CatalogueFiles(
            Push(
                applications=tuple(application for _, application in self.applications.values()),
                senders=tuple(sender for _, sender in self.senders.values()),
                types=tuple(new for _, new in self.types.values()),
                templates=tuple(templates),
                mappings=tuple(mapping for _, mapping in self.mappings.values()),
            ),
            tuple(self.problems),
            self.reports,
        )

    def _yaml(self, path: Path, file: str) -> Any:
        try:
            content = yaml.safe_load(self._text(path, file))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f"line {mark.line + 1}: " if mark else ""
            self.problem(file, "", f"not YAML: {line}{getattr(error, 'problem', None) or 'syntax error'}")
            return None
        if content is None:
            self.problem(file, "", "empty")
        return content

    def _text(self, path: Path, file: str) -> str:
        content = path.read_bytes()
        if len(content) > _MAX_FILE_BYTES:
            self.problem(file, "", f"larger than {_MAX_FILE_BYTES} bytes")
            return ""
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            self.problem(file, "", f"not UTF-8 at byte {error.start}: save it as UTF-8")
            return ""

    def _once(self, known: dict[str, tuple[str, Any]], file: str, place: str, name: str, value: Any) -> None:
        if name in known:
            self.problem(file, place, f"stands in {known[name][0]} as well")
        else:
            known[name] = (file, value)

    def _type(self, file: str, name: str, entry: TypeEntry) -> None:
        try:
            found = entry.named(name)
        except ValueError as error:
            self.problem(file, f"types.{name}.quietHours", str(error))
            return
        for wrong in type_problems(found, self.channels):
            self.problem(file, f"types.{name}.{wrong.field}", wrong.message)
        self._once(self.types, file, f"types.{name}", name, NewType(found, entry.retention_days))

    def _sender(self, path: Path, file: str, name: str, entry: SenderEntry) -> None:
        try:
            profile = read_sender(entry, path.parent)
        except InvalidSenderError as error:
            self.problem(file, f"senders.{name}.{error.place}", str(error))
        else:
            self._once(self.senders, file, f"senders.{name}", name, NewSender(name, profile))

    def _senders_known(self, known: Collection[str]) -> None:
        for name, (file, new) in self.types.items():
            sender = new.type.sender_profile
            if sender is not None and sender not in self.senders and sender not in known:
                self.problem(file, f"types.{name}.sender", f"no sender {sender}: declare it under `senders`")

    def _mapping(self, file: str, name: str, entry: MappingEntry) -> None:
        mapping = EventMapping(
            name, entry.event, entry.type, entry.role, entry.recipient, entry.params, entry.business_key
        )
        for wrong in mapping_problems(mapping):
            self.problem(file, f"mappings.{name}.{wrong.field}", wrong.message)
        self._once(self.mappings, file, f"mappings.{name}", name, mapping)

    def _parts(self, file: str, place: str, address: tuple[str, str, str], parts: Mapping[str, Any]) -> None:
        type_name, channel, locale = address
        channel = channel.upper()
        if channel not in self.channels:
            self.problem(file, place, f"unknown channel {channel!r}: use {', '.join(self.channels.names)}")
            return
        if not _LOCALE.fullmatch(locale) or len(locale) > 16:
            self.problem(file, place, f"{locale!r} is not a locale: name it like tr or tr-TR")
            return
        _, known = self.parts.setdefault((type_name, channel, locale), (file, {}))
        for part, source in parts.items():
            if part in known:
                self.problem(file, place, f"part {part} of {type_name} {channel} {locale} is given twice")
            known[part] = source

    def _templates(self, types: Mapping[str, NotificationType]) -> Iterator[NewTemplate]:
        for (type_name, channel, locale), (file, parts) in self.parts.items():
            if type_name not in types:
                self.problem(file, "", f"no type {type_name}: declare it under `types`")
                continue
            written, options = {name: text for name, text in parts.items() if name != OPTIONS}, parts.get(OPTIONS, {})
            if not isinstance(options, dict):
                self.problem(file, OPTIONS, "expected the channel's settings, like `sound: default`")
                continue
            report = check_template(
                types[type_name], self.channels.spec(channel), locale, written, options, profile=self.profile
            )
            for found in report.errors:
                self.problem(file, "", f"{type_name} {channel} {locale}: {found}")
            template = NewTemplate(type_name, channel, locale, written, report.parameters, options, report.prepared)
            self.reports[template.key] = report
            yield template

    def _mappings_fit(self, types: Mapping[str, NotificationType], templates: Sequence[NewTemplate]) -> None:
        for name, (file, mapping) in self.mappings.items():
            if mapping.notification_type not in types:
                self.problem(file, f"mappings.{name}.type", f"no type {mapping.notification_type}")
            of_type = [template for template in templates if template.type_name == mapping.notification_type]
            for wrong in missing_parameters(mapping, of_type):
                self.problem(file, f"mappings.{name}.{wrong.field}", wrong.message)

    def _sources_once(self) -> None:
        owners: dict[str, str] = {}
        for name, (file, application) in self.applications.items():
            for source in application.sources:
                if owners.setdefault(source, name) != name:
                    message = f"{source!r} belongs to {owners[source]} already: an event has one application"
                    self.problem(file, f"applications.{name}.sources", message)
