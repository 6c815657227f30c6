"""Channels, message classes and lanes, as data.

A channel is one descriptor: its classes and lanes, retry tiers, address kind and consent kind. Topics, preferences,
quotas and alarms derive from it, so a new channel is one entry here plus its folders (architecture.md section 2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class MessageClass(IntEnum):
    """The four priorities of seed 004, most urgent first; the number is stored and compared."""

    CRITICAL = 0
    TX = 1
    BULK = 2
    LOW = 3

    @property
    def label(self) -> str:
        """Name in topics, JSON and metrics: `critical`, `tx`, `bulk`, `low`."""
        return _LABELS[self]

    @classmethod
    def from_label(cls, label: str) -> "MessageClass":
        """Inverse of `label`; ValueError for anything else."""
        try:
            return cls[label.upper()]
        except KeyError:
            raise ValueError(f"unknown message class {label!r}: use critical, tx, bulk or low") from None


_LABELS: Final[Mapping[MessageClass, str]] = {member: member.name.lower() for member in MessageClass}


class Category(StrEnum):
    """What kind of message a type is (seed 003): decides preference, consent, quiet hours and default class."""

    SECURITY = "SECURITY"
    TRANSACTIONAL = "TRANSACTIONAL"
    MARKETING = "MARKETING"

    @property
    def message_class(self) -> MessageClass:
        return _CLASS_OF_CATEGORY[self]


_CLASS_OF_CATEGORY: Final[Mapping[Category, MessageClass]] = {
    Category.SECURITY: MessageClass.CRITICAL,
    Category.TRANSACTIONAL: MessageClass.TX,
    Category.MARKETING: MessageClass.BULK,
}


class Promise(StrEnum):
    """What happens after an ambiguous attempt (semantics.md section 1)."""

    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    AT_MOST_ONCE = "AT_MOST_ONCE"


DATA: Final = "data."
"""Beginning of the content fields that an app gets as its own data."""


class AddressKind(StrEnum):
    EMAIL_ADDRESS = "EMAIL_ADDRESS"
    PHONE = "PHONE"
    DEVICE = "DEVICE"
    NONE = "NONE"


ADDRESSED: Final = frozenset({AddressKind.EMAIL_ADDRESS, AddressKind.PHONE})
"""Kinds of addresses that a consent is given for: it stays with the address, whoever has it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One topic, consumer group, deployment, pool, quota share and its retry tiers.

    tiers are delays in seconds, shortest first; with `last_tier_repeats` the longest is used again until attempts or
    TTL end. send_deadline_sec bounds one send from claim to outcome; a lease is that plus `lease_margin_sec`.
    poll_batch is seed 004's; so is the deadline where that fits (`_deadline_sec`).
    """

    name: str
    channel: str
    message_class: MessageClass
    tiers: tuple[int, ...]
    last_tier_repeats: bool
    poll_batch: int
    send_deadline_sec: float
    lease_margin_sec: float
    max_attempts: int
    partitions: int = 24
    retry_partitions: int = 3

    @property
    def topic(self) -> str:
        return self.name

    @property
    def dlq_topic(self) -> str:
        return f"{self.name}-dlq"

    def retry_topic(self, tier_sec: int) -> str:
        """Topic of one retry tier, e.g. `push-tx-retry-10m`; ValueError if the lane has no such tier."""
        if tier_sec not in self.tiers:
            raise ValueError(f"lane {self.name} has no retry tier of {tier_sec} s, only {self.tiers}")
        return f"{self.name}-retry-{duration_label(tier_sec)}"

    @property
    def retry_topics(self) -> tuple[str, ...]:
        return tuple(self.retry_topic(tier) for tier in self.tiers)

    @property
    def lease_sec(self) -> float:
        return self.send_deadline_sec + self.lease_margin_sec


def duration_label(seconds: int) -> str:
    """5 -> `5s`, 600 -> `10m`, 3600 -> `1h`."""
    if seconds % 3600 == 0:
        return f"{seconds // 3600}h"
    if seconds % 60 == 0:
        return f"{seconds // 60}m"
    return f"{seconds}s"


_OTP_TIERS: Final = (5, 15, 45)
_TX_TIERS: Final = (10, 60, 600, 3600)
_BULK_TIERS: Final = (600, 3600)
_URGENT_SEC: Final = 5.0
_BULK_SEC: Final = 30.0
"""Seed 004, bulkheads: what a call may take in transactional and in marketing lanes."""
_PATIENT_SEC: Final = 20.0
"""Where 5 s do not fit: an SMS that is given up becomes UNKNOWN and is never sent again, and seed 001 gives each
command of a mail's dialogue 15 s."""
_BULK_EMAIL_SEC: Final = 660.0
"""RFC 5321 section 4.5.3.2.6: a server has 10 minutes to answer the final dot, and a mail that is given up sooner goes
out twice. With the commands before it."""


def _deadline_sec(channel: str, *, urgent: bool) -> float:
    if channel == "EMAIL":
        return _PATIENT_SEC if urgent else _BULK_EMAIL_SEC
    if not urgent:
        return _BULK_SEC
    return _PATIENT_SEC if channel == "SMS" else _URGENT_SEC


def _lane(channel: str, message_class: MessageClass, *, name: str | None = None) -> Lane:
    urgent = message_class <= MessageClass.TX
    return Lane(
        name=name or f"{channel.lower()}-{message_class.label}",
        channel=channel,
        message_class=message_class,
        tiers=_TX_TIERS if urgent else _BULK_TIERS,
        last_tier_repeats=urgent,
        poll_batch=100 if urgent else 1000,
        send_deadline_sec=_deadline_sec(channel, urgent=urgent),
        lease_margin_sec=10.0 if urgent else 30.0,
        max_attempts=8,  # seed 001
    )


OTP_LANE: Final = Lane(
    name="otp-sms",
    channel="SMS",
    message_class=MessageClass.CRITICAL,
    tiers=_OTP_TIERS,
    last_tier_repeats=False,
    poll_batch=100,
    send_deadline_sec=7.0,  # with the margin 10 s in all (semantics.md section 3)
    lease_margin_sec=3.0,
    max_attempts=4,
)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """All that is particular about a channel. `default_promise` is that of types that say nothing else.

    A channel without lanes is not sent by anyone: it is there once the decision is written (INBOX).
    """

    name: str
    address_kind: AddressKind
    lanes: tuple[Lane, ...]
    default_promise: Promise
    consent_purpose: str
    content_fields: tuple[str, ...]
    """Names of the template parts; the first is required, see shared/content."""
    optional_fields: tuple[str, ...] = field(default=())
    derived_fields: Mapping[str, str] = field(default_factory=dict)
    """A required field that a template may leave out, and the one of which it is made then."""
    open_fields: tuple[str, ...] = field(default=())
    """Beginnings of further parts that an author names: `data.` lets `data.orderNo` through."""

    @property
    def is_sent(self) -> bool:
        """Whether workers hand it to a provider; else its deliveries are born DELIVERED."""
        return bool(self.lanes)

    def lane(self, message_class: MessageClass) -> Lane:
        """The lane of a class; a class without one uses the next lower, `low` uses `bulk` (semantics.md section 6)."""
        by_class = {lane.message_class: lane for lane in self.lanes}
        for candidate in [*range(message_class, MessageClass.LOW + 1), *range(message_class - 1, -1, -1)]:
            if MessageClass(candidate) in by_class:
                return by_class[MessageClass(candidate)]
        raise ValueError(f"channel {self.name} has no lanes")


EMAIL: Final = ChannelSpec(
    name="EMAIL",
    address_kind=AddressKind.EMAIL_ADDRESS,
    lanes=tuple(_lane("EMAIL", message_class) for message_class in MessageClass),
    default_promise=Promise.AT_LEAST_ONCE,
    consent_purpose="MARKETING_EMAIL",
    content_fields=("subject", "text"),
    optional_fields=("html", "preheader"),
    derived_fields={"text": "html"},
)
PUSH: Final = ChannelSpec(
    name="PUSH",
    address_kind=AddressKind.DEVICE,
    lanes=tuple(
        _lane("PUSH", message_class) for message_class in (MessageClass.CRITICAL, MessageClass.TX, MessageClass.BULK)
    ),
    default_promise=Promise.AT_LEAST_ONCE,
    consent_purpose="MARKETING_PUSH",
    content_fields=("title", "body"),
    optional_fields=("url", "image", "collapseKey"),
    open_fields=(DATA,),
)
SMS: Final = ChannelSpec(
    name="SMS",
    address_kind=AddressKind.PHONE,
    lanes=(OTP_LANE, _lane("SMS", MessageClass.TX), _lane("SMS", MessageClass.BULK)),
    default_promise=Promise.AT_MOST_ONCE,
    consent_purpose="MARKETING_SMS",
    content_fields=("text",),
)


INBOX: Final = ChannelSpec(
    name="INBOX",
    address_kind=AddressKind.NONE,
    lanes=(),
    default_promise=Promise.AT_LEAST_ONCE,
    consent_purpose="MARKETING_INBOX",
    content_fields=("title", "body"),
    optional_fields=("url",),
)
"""The list in the app (seed 003): reached by being written, so its one address is the user."""


class Channels:
    """An immutable set of channel descriptors: look-ups of channels and lanes by name.

    Passed to whoever needs it (router, workers, topics), never global state, so that a test or an installation can
    add a channel.
    """

    def __init__(self, specs: Iterable[ChannelSpec]) -> None:
        self._specs: Final = {spec.name: spec for spec in specs}
        self._lanes: Final = {lane.name: lane for spec in self._specs.values() for lane in spec.lanes}

    def __contains__(self, name: str) -> bool:
        return name in self._specs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._specs)

    @property
    def specs(self) -> tuple[ChannelSpec, ...]:
        return tuple(self._specs.values())

    @property
    def lanes(self) -> tuple[Lane, ...]:
        return tuple(self._lanes.values())

    def find(self, name: str) -> ChannelSpec | None:
        """None: this installation does not have it."""
        return self._specs.get(name)

    def spec(self, name: str) -> ChannelSpec:
        """Of a channel that is known to be there: ValueError for any other."""
        try:
            return self._specs[name]
        except KeyError:
            raise ValueError(f"unknown channel {name!r}: use one of {', '.join(self._specs)}") from None

    def lane(self, name: str) -> Lane:
        try:
            return self._lanes[name]
        except KeyError:
            raise ValueError(f"unknown lane {name!r}: use one of {', '.join(self._lanes)}") from None


DEFAULT_CHANNELS: Final = Channels((EMAIL, PUSH, SMS, INBOX))
