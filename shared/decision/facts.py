"""All that a decision may look at, loaded beforehand: the rules ask nobody anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from shared.core.catalogue import NotificationType


class Mode(StrEnum):
    """Kind of the API key a notification came by (api.md): TEAM reaches an allow-list only, TEST is simulated."""

    LIVE = "live"
    TEAM = "team"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Target:
    """One address, unopened: its keyed hash and the sealed address. platform and app_id are a device's."""

    key: bytes
    sealed: bytes
    platform: str | None = None
    app_id: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """One notification and its recipient at the moment of the decision.

    asked: channels the caller asked for, in that order; None means the type's default channels.
    targets: by channel, all addresses a message could go to (every active device for PUSH).
    templates: channels for which the type has a template in the recipient's or the default locale.
    preferences: the user's word by channel, the type's own before the category's; a channel not named has no word.
    suppressed: target keys that must not be written to, by channel.
    consented: channels on which the user's marketing consent stands.
    allow_list: target keys a TEAM key may reach.
    zone: IANA name of the recipient's time zone, if known.
    """

    notification_id: UUID
    type: NotificationType
    mode: Mode
    expires_at: datetime
    send_at: datetime | None = None
    asked: tuple[str, ...] | None = None
    targets: Mapping[str, tuple[Target, ...]] = field(default_factory=dict)
    templates: frozenset[str] = frozenset()
    preferences: Mapping[str, bool] = field(default_factory=dict)
    suppressed: frozenset[tuple[str, bytes]] = frozenset()
    consented: frozenset[str] = frozenset()
    allow_list: frozenset[bytes] = frozenset()
    zone: str | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels to decide on, each once, in the order asked for."""
        return tuple(dict.fromkeys(self.type.default_channels if self.asked is None else self.asked))
