"""Notification types, templates and event mappings: the small, read-mostly facts that services keep in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from shared.wire.channel import Category, ChannelSpec, MessageClass, Promise


@dataclass(frozen=True, slots=True)
class NotificationType:
    """What a type is and how it travels. `promises` names channels that differ from the channel's default promise."""

    name: str
    category: Category
    message_class: MessageClass
    default_channels: tuple[str, ...]
    ttl: timedelta
    promises: Mapping[str, Promise] = field(default_factory=dict)

    def promise(self, channel: ChannelSpec) -> Promise:
        return self.promises.get(channel.name, channel.default_promise)


@dataclass(frozen=True, slots=True)
class Template:
    """One active version: content field -> Jinja source, and the parameters those sources use."""

    type_name: str
    channel: str
    locale: str
    version: int
    parts: Mapping[str, str]
    parameters: frozenset[str]


@dataclass(frozen=True, slots=True)
class EventMapping:
    """How a CloudEvent of `event_type` becomes one notification. Expressions are JMESPath over the whole event."""

    name: str
    event_type: str
    notification_type: str
    role: str
    recipient: str
    params: Mapping[str, str]
    business_key: str | None = None


class Catalogue:
    """One consistent reading of all three, immutable; look-ups by what callers have in hand."""

    def __init__(
        self,
        types: Iterable[NotificationType],
        templates: Iterable[Template],
        mappings: Iterable[EventMapping],
    ) -> None:
        self._types = {entry.name: entry for entry in types}
        self._templates: dict[tuple[str, str], dict[str, Template]] = {}
        for template in templates:
            self._templates.setdefault((template.type_name, template.channel), {})[_folded(template.locale)] = template
        self._mappings: dict[str, list[EventMapping]] = {}
        for mapping in mappings:
            self._mappings.setdefault(mapping.event_type, []).append(mapping)

    def type(self, name: str) -> NotificationType | None:
        return self._types.get(name)

    @property
    def types(self) -> tuple[NotificationType, ...]:
        return tuple(self._types.values())

    def template(self, type_name: str, channel: str, locale: str | None, default_locale: str) -> Template | None:
        """The template for a recipient: tr-TR -> tr -> default locale -> None (J3); never parts from two locales."""
        by_locale = self._templates.get((type_name, channel), {})
        for candidate in (*_locale_chain(locale), *_locale_chain(default_locale)):
            if candidate in by_locale:
                return by_locale[candidate]
        return None

    def templates(self, type_name: str, channel: str) -> tuple[Template, ...]:
        """All locales of one type and channel."""
        return tuple(self._templates.get((type_name, channel), {}).values())

    def mappings(self, event_type: str) -> tuple[EventMapping, ...]:
        return tuple(self._mappings.get(event_type, ()))


def _locale_chain(locale: str | None) -> Iterable[str]:
    """`tr-TR` -> `tr-tr`, `tr`, as look-ups are keyed."""
    parts = _folded(locale or "").split("-")
    for length in range(len(parts), 0, -1):
        candidate = "-".join(parts[:length])
        if candidate:
            yield candidate


def _folded(locale: str) -> str:
    """BCP 47 tags compare without case (RFC 5646 section 2.1.1); underscores are read as hyphens."""
    return locale.replace("_", "-").lower()
