"""The catalogue as files: what they may hold, and everything that is wrong with them, by file and field. Reads only.

A folder:  *.yaml with any of `applications`, `types`, `mappings`, and templates in `templates/<TYPE>/`:
           `<channel>.<locale>.yaml` with all parts, or a file a part: `<channel>.<locale>.<part>.txt`,
           `<channel>.<locale>.html`.
A file:    the same keys, and `templates: {TYPE: {<channel>.<locale>: {part: source}}}`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import jmespath
import yaml
from jmespath.exceptions import JMESPathError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shared.content.problem import InvalidTemplateError
from shared.content.render import check_parts
from shared.core.catalogue import EventMapping, NotificationType
from shared.postgres.catalogue_write import Application, NewTemplate, NewType, Push
from shared.wire.channel import Category, Channels, MessageClass, Promise

_DURATION: Final = re.compile(r"(\d+)\s*([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_TTL: Final = timedelta(days=30)
_LOCALE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_MAX_FILE_BYTES: Final = 1_048_576
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
    """What the files say, and all that is wrong with them. samples: example parameters by type."""

    push: Push
    problems: tuple[Problem, ...] = ()
    samples: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _seconds(value: object) -> object:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(seconds=value)
    raise ValueError("give a duration like 180s, 15m, 12h or 2d")


Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0), le=_MAX_TTL)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ApplicationEntry(_Entry):
    sources: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(default_factory=list)


class TypeEntry(_Entry):
    category: Category
    channels: list[str] = Field(min_length=1)
    ttl: Duration
    message_class: Literal["critical", "tx", "bulk", "low"] | None = Field(default=None, alias="class")
    promises: dict[str, Promise] = Field(default_factory=dict)
    retention_days: int = Field(default=90, ge=1, le=90, alias="retentionDays")
    sample: dict[str, Any] = Field(default_factory=dict)


class MappingEntry(_Entry):
    event: str = Field(min_length=1, max_length=200)
    type: Name
    recipient: str = Field(min_length=1)
    params: dict[str, str] = Field(default_factory=dict)
    role: str = Field(default="", max_length=32, pattern=r"^[A-Za-z0-9_-]*$")
    business_key: str | None = Field(default=None, alias="businessKey")


class CatalogueDocument(_Entry):
    applications: dict[Name, ApplicationEntry] = Field(default_factory=dict)
    types: dict[Name, TypeEntry] = Field(default_factory=dict)
    mappings: dict[Name, MappingEntry] = Field(default_factory=dict)
    templates: dict[Name, dict[str, dict[str, str]]] = Field(default_factory=dict)


def read_catalogue_files(
    path: Path, channels: Channels, *, known_types: Mapping[str, NotificationType]
) -> CatalogueFiles:
    """Read a folder or one file and check all of it; known_types are those the database has already.

    Raises OSError for what cannot be read. Nothing is written anywhere.
    """
    reading = _Reading(channels)
    if path.is_dir():
        for file in sorted(p for p in path.iterdir() if p.suffix in SUFFIXES):
            reading.document(file, file.name)
        reading.template_folder(path)
        if not reading.files:
            reading.problem(path.name, "", "no catalogue here: expected *.yaml files or a templates folder")
    else:
        reading.document(path, path.name)
    return reading.result(known_types)


class _Reading:
    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.files = 0
        self.problems: list[Problem] = []
        self.applications: dict[str, tuple[str, Application]] = {}
        self.types: dict[str, tuple[str, NewType]] = {}
        self.samples: dict[str, Mapping[str, Any]] = {}
        self.mappings: dict[str, tuple[str, EventMapping]] = {}
        self.parts: dict[tuple[str, str, str], tuple[str, dict[str, str]]] = {}

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
            for wrong in error.errors(include_url=False, include_input=False):
                place = ".".join(str(step) for step in wrong["loc"] if step != "[key]")
                self.problem(file, place, wrong["msg"].removeprefix("Value error, "))
            return
        for name, application in document.applications.items():
            self._once(
                self.applications, file, f"applications.{name}", name, Application(name, tuple(application.sources))
            )
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
                        isinstance(k, str) and isinstance(v, str) for k, v in content.items()
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

    def result(self, known_types: Mapping[str, NotificationType]) -> CatalogueFiles:
        types = dict(known_types) | {name: new.type for name, (_, new) in self.types.items()}
        templates = list(self._templates(types))
        self._mappings_fit(types, templates)
        self._sources_once()
        return CatalogueFiles(
            Push(
                applications=tuple(application for _, application in self.applications.values()),
                types=tuple(new for _, new in self.types.values()),
                templates=tuple(templates),
                mappings=tuple(mapping for _, mapping in self.mappings.values()),
            ),
            tuple(self.problems),
            self.samples,
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
        self._channels(file, f"types.{name}.channels", entry.channels)
        self._channels(file, f"types.{name}.promises", list(entry.promises))
        message_class = (
            entry.category.message_class
            if entry.message_class is None
            else MessageClass.from_label(entry.message_class)
        )
        if message_class < entry.category.message_class:
            self.problem(file, f"types.{name}.class", f"{entry.category} may be lowered, not raised")
        found = NotificationType(
            name=name,
            category=entry.category,
            message_class=message_class,
            default_channels=tuple(entry.channels),
            ttl=entry.ttl,
            promises=entry.promises,
        )
        self._once(self.types, file, f"types.{name}", name, NewType(found, entry.retention_days))
        self.samples[name] = entry.sample

    def _channels(self, file: str, place: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.channels:
                self.problem(file, place, f"unknown channel {name!r}: use {', '.join(self.channels.names)}")

    def _mapping(self, file: str, name: str, entry: MappingEntry) -> None:
        expressions = {"recipient": entry.recipient, **{f"params.{key}": path for key, path in entry.params.items()}}
        if entry.business_key is not None:
            expressions["businessKey"] = entry.business_key
        for place, expression in expressions.items():
            try:
                jmespath.compile(expression)
            except JMESPathError:
                self.problem(file, f"mappings.{name}.{place}", f"`{expression}` is not a JMESPath expression")
        mapping = EventMapping(
            name, entry.event, entry.type, entry.role, entry.recipient, entry.params, entry.business_key
        )
        self._once(self.mappings, file, f"mappings.{name}", name, mapping)

    def _parts(self, file: str, place: str, address: tuple[str, str, str], parts: Mapping[str, str]) -> None:
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
            try:
                parameters = check_parts(self.channels.spec(channel), parts)
            except InvalidTemplateError as error:
                for found in error.problems:
                    self.problem(file, "", f"{type_name} {channel} {locale}: {found}")
                continue
            yield NewTemplate(type_name, channel, locale, parts, parameters)

    def _mappings_fit(self, types: Mapping[str, NotificationType], templates: Sequence[NewTemplate]) -> None:
        """A mapping must give what its type's templates need, or every event would end in the dead letters."""
        for name, (file, mapping) in self.mappings.items():
            if mapping.notification_type not in types:
                self.problem(file, f"mappings.{name}.type", f"no type {mapping.notification_type}")
            for template in templates:
                missing = template.parameters - mapping.params.keys()
                if template.type_name == mapping.notification_type and missing:
                    self.problem(
                        file,
                        f"mappings.{name}.params",
                        f"{', '.join(sorted(missing))} missing, which the {template.channel} template in "
                        f"{template.locale} needs",
                    )

    def _sources_once(self) -> None:
        owners: dict[str, str] = {}
        for name, (file, application) in self.applications.items():
            for source in application.sources:
                if owners.setdefault(source, name) != name:
                    message = f"{source!r} belongs to {owners[source]} already: an event has one application"
                    self.problem(file, f"applications.{name}.sources", message)
