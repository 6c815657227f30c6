"""Notification types, templates, mappings and senders: the small, read-mostly facts that services keep in memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from shared.core.quiet_hours import MARKETING as MARKETING_QUIET_HOURS
from shared.core.quiet_hours import QuietHours
from shared.core.sender import StoredProfile
from shared.wire.channel import Category, ChannelSpec, MessageClass, Promise

CONTENT_WINDOW: Final = timedelta(hours=24)
"""semantics.md section 1: the same content from two events, default window."""


def default_quiet_hours(category: Category) -> QuietHours | None:
    """Marketing waits out the night; other categories do not, unless a type says so (seed 003)."""
    return MARKETING_QUIET_HOURS if category is Category.MARKETING else None


def default_fallback(category: Category) -> tuple[str, ...]:
    """A transactional message without a device goes by e-mail (seed 003); SMS costs, so a type must ask for it."""
    return ("EMAIL",) if category is Category.TRANSACTIONAL else ()


@dataclass(frozen=True, slots=True)
class NotificationType:
    """What a type is and how it travels. `promises` names channels that differ from the channel's default promise.

    sender_profile: the name of who its mails are from; None is the installation's sender. quiet_hours None: at any
    hour. content_window 0: the same content again is sent again. fallback_channels: in order, for want of a target on
    a channel asked for. max_sms_segments None: as many as the channel takes; refuse_sms_overflow says whether more is
    an error at publish or only a warning. parameter_schema: JSON Schema of params, None is any object. sample: params
    that every template of the type renders.
    """

    name: str
    category: Category
    message_class: MessageClass
    default_channels: tuple[str, ...]
    ttl: timedelta
    promises: Mapping[str, Promise] = field(default_factory=dict)
    sender_profile: str | None = None
    quiet_hours: QuietHours | None = None
    content_window: timedelta = CONTENT_WINDOW
    fallback_channels: tuple[str, ...] = ()
    max_sms_segments: int | None = None
    refuse_sms_overflow: bool = False
    parameter_schema: Mapping[str, Any] | None = None
    sample: Mapping[str, Any] = field(default_factory=dict)

    def promise(self, channel: ChannelSpec) -> Promise:
        return self.promises.get(channel.name, channel.default_promise)


@dataclass(frozen=True, slots=True)
class Template:
    """One active version: content field -> Jinja source as it is rendered, and the parameters those sources use.

    options are the channel's own settings, like `transliterate` of SMS.
    """

    type_name: str
    channel: str
    locale: str
    version: int
    parts: Mapping[str, str]
    parameters: frozenset[str]
    options: Mapping[str, Any] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class FrequencyCap:
    """How many a user gets of a category on a channel in one day of their own calendar."""

    category: Category
    channel: str
    per_day: int


class Catalogue:
    """One consistent reading of all of them, immutable; look-ups by what callers have in hand."""

    def __init__(
        self,
        types: Iterable[NotificationType],
        templates: Iterable[Template],
        mappings: Iterable[EventMapping],
        senders: Iterable[StoredProfile] = (),
        caps: Iterable[FrequencyCap] = (),
    ) -> None:
        self._types = {entry.name: entry for entry in types}
        self._caps = {(cap.category, cap.channel): cap.per_day for cap in caps}
        self._senders = {sender.name: sender for sender in senders}
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

    def sender(self, type_name: str) -> StoredProfile | None:
        """Who the mails of a type are from; None is the installation's sender."""
        entry = self._types.get(type_name)
        if entry is None or entry.sender_profile is None:
            return None
        return self._senders.get(entry.sender_profile)

    @property
    def senders(self) -> tuple[StoredProfile, ...]:
        return tuple(self._senders.values())

    def daily_cap(self, category: Category, channel: str) -> int | None:
        """Messages a user and local day; None: no cap."""
        return self._caps.get((category, channel))

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

    @property
    def all_mappings(self) -> tuple[EventMapping, ...]:
        return tuple(mapping for mappings in self._mappings.values() for mapping in mappings)

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
