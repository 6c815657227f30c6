"""Facts of a whole batch in a handful of queries, whatever its size."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.core.catalogue import Catalogue, NotificationType
from shared.core.consent import Purpose, user_subject
from shared.decision.facts import Facts, Mode, Target
from shared.facts.frequency import counted, day_of
from shared.facts.subject import Subject
from shared.facts.template import TemplateChoice
from shared.postgres.consent import Subject as ConsentSubject
from shared.postgres.consent import read_states
from shared.postgres.errors import translated
from shared.postgres.pool import Connection, Pool
from shared.postgres.preference import PreferenceCache, Preferences
from shared.postgres.query import load_queries
from shared.runtime.keyring import RingSource
from shared.wire.channel import ADDRESSED, AddressKind, Category, Channels

Typed = tuple[Subject, NotificationType]
Address = tuple[str, bytes]
"""Channel and target key."""
Window = tuple[str, int, str]
"""Type, user and business key: the same content (semantics.md section 1)."""

_SQL: Final = load_queries("facts")
_NOTHING_SAID: Final[Preferences] = {}
_NOTHING_SENT: Final[Mapping[str, int]] = {}


class FactStore:
    """Reads what the rules may look at. A fact is at most as old as the batch, a preference as its cache allows.

    default_zone: of whoever has not said theirs (T4).
    """

    def __init__(
        self, pool: Pool, channels: Channels, rings: RingSource, preferences: PreferenceCache, *, default_zone: str
    ) -> None:
        self._pool = pool
        self._channels = channels
        self._rings = rings
        self._preferences = preferences
        self._default_zone = default_zone

    async def load(
        self, subjects: Sequence[Typed], templates: TemplateChoice, now: datetime, *, counting: bool = False
    ) -> dict[UUID, Facts]:
        """Facts by notification id. At most one query each: devices, preferences, suppressions, consents, windows,
        allow-lists; none of those that nobody in the batch needs. Raises UnavailableError.

        counting: what was sent today as well, as far as PostgreSQL knows. Whoever reserves places in the day does not
        need it: the reservation is exact.
        """
        users = sorted({subject.user_id for subject, _ in subjects if subject.user_id is not None})
        with translated():
            async with self._pool.acquire() as connection:
                devices = await _devices(connection, users)
                preferences = await self._preferences.of(connection, users)
                givers = {user: user_subject(self._rings.ring, user) for user in _asked_of(subjects, self._channels)}
                targets = {subject.id: self._targets(subject, found, devices, givers) for subject, found in subjects}
                suppressed = await _suppressed(connection, targets.values(), now)
                consented = await self._consented(connection, subjects, targets, givers)
                holders = await window_holders(connection, _windows(subjects), now)
                sent = await self._sent(connection, subjects, templates.catalogue, now) if counting else {}
                allow_lists = await _allow_lists(connection, [subject for subject, _ in subjects])
        caps = {category: self._caps(templates.catalogue, category) for category in Category}
        return {
            subject.id: Facts(
                notification_id=subject.id,
                type=found,
                mode=subject.mode,
                expires_at=subject.expires_at,
                send_at=subject.send_at,
                asked=subject.channels,
                targets=targets[subject.id],
                templates=templates.by_channel(found.name, subject.locale),
                preferences=_spoken(preferences.get(subject.user_id or 0, _NOTHING_SAID), found),
                suppressed=suppressed[found.category is Category.MARKETING],
                consented=consented,
                user_subject=givers.get(subject.user_id or 0),
                allow_list=allow_lists.get(subject.api_key_id, frozenset()) if subject.api_key_id else frozenset(),
                duplicate_of=_first(holders, subject, found),
                caps=caps[found.category],
                sent_today=sent.get(subject.id, _NOTHING_SENT),
                zone=subject.recipient.zone,
                default_zone=self._default_zone,
            )
            for subject, found in subjects
        }

    def _targets(
        self,
        subject: Subject,
        found: NotificationType,
        devices: Mapping[int, tuple[Target, ...]],
        givers: Mapping[int, bytes],
    ) -> dict[str, tuple[Target, ...]]:
        """Of the channels that it is decided on, or that may stand in."""
        targets: dict[str, tuple[Target, ...]] = {}
        for name in (*(subject.channels or found.default_channels), *found.fallback_channels):
            spec = self._channels.find(name)
            if spec is None:
                continue
            if spec.address_kind in ADDRESSED:
                address = subject.recipient.addresses.get(spec.address_kind)
                if address is not None:
                    targets[name] = (Target(*address),)
            elif subject.user_id is not None:
                if spec.address_kind is AddressKind.DEVICE:
                    targets[name] = devices.get(subject.user_id, ())
                else:
                    targets[name] = (Target(givers[subject.user_id], b""),)
        return targets

    async def _consented(
        self,
        connection: Connection,
        subjects: Sequence[Typed],
        targets: Mapping[UUID, Mapping[str, tuple[Target, ...]]],
        givers: Mapping[int, bytes],
    ) -> frozenset[Address]:
        """Whose consent stands, on which channel. Never from memory: a withdrawal is at once."""
        asked: set[ConsentSubject] = set()
        for subject, found in subjects:
            if found.category is not Category.MARKETING:
                continue
            for channel, reached in targets[subject.id].items():
                if self._channels.spec(channel).address_kind in ADDRESSED:
                    asked.update((target.key, channel, Purpose.MARKETING) for target in reached)
                elif subject.user_id is not None:
                    asked.add((givers[subject.user_id], channel, Purpose.MARKETING))
        words = await read_states(connection, asked)
        return frozenset((channel, giver) for (giver, channel, _), word in words.items() if word.granted)

    def _caps(self, catalogue: Catalogue, category: Category) -> Mapping[str, int]:
        found = {name: catalogue.daily_cap(category, name) for name in self._channels.names}
        return {name: cap for name, cap in found.items() if cap is not None}

    async def _sent(
        self, connection: Connection, subjects: Sequence[Typed], catalogue: Catalogue, now: datetime
    ) -> dict[UUID, Mapping[str, int]]:
        """By notification and channel, what its user has had today of its category."""
        days = {
            (subject.id, channel): day_of(
                subject.user_id, found.category, channel, subject.recipient.zone, self._default_zone, now
            )
            for subject, found in subjects
            if subject.user_id is not None
            for channel in self._caps(catalogue, found.category)
        }
        known = await counted(connection, set(days.values()))
        sent: defaultdict[UUID, dict[str, int]] = defaultdict(dict)
        for (id_, channel), day in days.items():
            sent[id_][channel] = len(known[day] - {id_.bytes})
        return dict(sent)


async def window_holders(connection: Connection, windows: Iterable[Window], now: datetime) -> dict[Window, UUID]:
    """The notifications whose content stands for these now."""
    asked = list(dict.fromkeys(windows))
    if not asked:
        return {}
    types, users, business_keys = zip(*asked, strict=True)
    rows = await connection.fetch(_SQL["window_holders"], types, users, business_keys, now)
    return {(row["type"], row["user_id"], row["business_key"]): row["notification_id"] for row in rows}


def window_of(subject: Subject, found: NotificationType) -> Window | None:
    """What it must be the first to say; None: it may be said as often as it comes. Test keys count in no window.

    Neither does a key with a NUL: no row can hold it, so the notification's own is refused for it.
    """
    if (
        subject.business_key is None
        or subject.user_id is None
        or not found.content_window
        or subject.mode is Mode.TEST
        or "\x00" in subject.business_key
    ):
        return None
    return found.name, subject.user_id, subject.business_key


def _asked_of(subjects: Sequence[Typed], channels: Channels) -> set[int]:
    """Users whose keyed hash it takes: for their own consent, or as the target of what is addressed to no address."""
    bare = {spec.name for spec in channels.specs if spec.address_kind is AddressKind.NONE}
    return {
        subject.user_id
        for subject, found in subjects
        if subject.user_id is not None
        and (
            found.category is Category.MARKETING
            or not bare.isdisjoint(subject.channels or found.default_channels)
            or not bare.isdisjoint(found.fallback_channels)
        )
    }


def _windows(subjects: Sequence[Typed]) -> Iterable[Window]:
    return (window for subject, found in subjects if (window := window_of(subject, found)) is not None)


def _first(holders: Mapping[Window, UUID], subject: Subject, found: NotificationType) -> UUID | None:
    """The other notification that has said it."""
    window = window_of(subject, found)
    first = None if window is None else holders.get(window)
    return None if first == subject.id else first


async def _devices(connection: Connection, users: Sequence[int]) -> Mapping[int, tuple[Target, ...]]:
    if not users:
        return {}
    found: defaultdict[int, list[Target]] = defaultdict(list)
    for user_id, *device in await connection.fetch(_SQL["devices"], users):
        found[user_id].append(Target(*device))
    return {user_id: tuple(targets) for user_id, targets in found.items()}


async def _suppressed(
    connection: Connection, targets: Iterable[Mapping[str, tuple[Target, ...]]], now: datetime
) -> Mapping[bool, frozenset[Address]]:
    """Who must not be written to: by whether it is marketing, which a suppression may be meant for alone."""
    asked = {
        (channel, target.key) for by_channel in targets for channel, found in by_channel.items() for target in found
    }
    if not asked:
        return {True: frozenset(), False: frozenset()}
    channels, keys = zip(*asked, strict=True)
    rows = await connection.fetch(_SQL["suppressions"], channels, keys, now)
    return {
        True: frozenset((row["channel"], row["address_key"]) for row in rows),
        False: frozenset((row["channel"], row["address_key"]) for row in rows if row["scope"] == "ALL"),
    }


async def _allow_lists(connection: Connection, subjects: Iterable[Subject]) -> Mapping[UUID, frozenset[bytes]]:
    keys = sorted({s.api_key_id for s in subjects if s.mode is Mode.TEAM and s.api_key_id is not None})
    if not keys:
        return {}
    rows = await connection.fetch(_SQL["allow_lists"], keys)
    return {row["id"]: frozenset(row["allow_list"]) for row in rows}


def _spoken(preferences: Preferences, found: NotificationType) -> dict[str, bool]:
    """The user's word on each channel: the type's own before the category's."""
    words = [
        (of_type, channel, enabled)
        for (category, channel, of_type), enabled in preferences.items()
        if category is found.category and of_type in {"", found.name}
    ]
    return {channel: enabled for _, channel, enabled in sorted(words)}  # '' comes first
