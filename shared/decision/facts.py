"""All that a decision may look at, loaded beforehand: the rules ask nobody anything."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from shared.core.catalogue import NotificationType
from shared.wire.channel import ADDRESSED, ChannelSpec


class Mode(StrEnum):
    """Kind of the API key a notification came by (api.md): TEAM reaches an allow-list only, TEST is simulated."""

    LIVE = "live"
    TEAM = "team"
    TEST = "test"


class Target(NamedTuple):
    """One address, unopened: its keyed hash and the sealed address. platform and app_id are a device's."""

    key: bytes
    sealed: bytes
    platform: str | None = None
    app_id: str | None = None


@dataclass(slots=True)  # not frozen, though nobody changes it: that costs a microsecond of some hundred
class Facts:
    """One notification and its recipient at the moment of the decision.

    asked: channels the caller asked for, in that order; None means the type's default channels.
    targets: by channel, all addresses a message could go to (every active device for PUSH).
    templates: channels for which the type has a template in the recipient's or the default locale.
    preferences: the user's word by channel, the type's own before the category's; a channel not named has no word.
    suppressed: (channel, target key) that must not be written to in a message of this category.
    consented: (channel, subject) whose marketing consent stands. The subject is the target key where a consent belongs
    to an address (EMAIL, SMS), else `user_subject`; None: the user is not known, so there is none.
    allow_list: target keys a TEAM key may reach.
    duplicate_of: the notification that said the same within the type's content window; never this one itself.
    caps: by channel, how many of this category a user may get in a local day; a channel not named has no cap.
    sent_today: by channel, how many of them count already in the user's local day, without this notification.
    zone: IANA name of the recipient's time zone, if known; default_zone: of whoever has none, or one that is none (T4).
    """

    notification_id: UUID
    type: NotificationType
    mode: Mode
    expires_at: datetime
    send_at: datetime | None = None
    asked: tuple[str, ...] | None = None
    targets: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    templates: Collection[str] = frozenset()
    preferences: Mapping[str, bool] = field(default_factory=dict)
    suppressed: frozenset[tuple[str, bytes]] = frozenset()
    consented: frozenset[tuple[str, bytes]] = frozenset()
    user_subject: bytes | None = None
    allow_list: frozenset[bytes] = frozenset()
    duplicate_of: UUID | None = None
    caps: Mapping[str, int] = field(default_factory=dict)
    sent_today: Mapping[str, int] = field(default_factory=dict)
    zone: str | None = None
    default_zone: str = "UTC"

    def consents(self, channel: ChannelSpec, target: Target) -> bool:
        """Whether marketing may reach this target: its own consent on EMAIL and SMS, the user's elsewhere."""
        subject = target.key if channel.address_kind in ADDRESSED else self.user_subject
        return (channel.name, subject) in self.consented

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels to decide on, each once, in the order asked for."""
        return tuple(dict.fromkeys(self.type.default_channels if self.asked is None else self.asked))
