"""What operators have said that workers heed: pauses, quotas, drains. As the database holds it; look-ups are pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property
from typing import Final
from uuid import UUID

from shared.core.identifier import API_KEY, public_id
from shared.wire.channel import OTP_LANE


class PauseKind(StrEnum):
    """What a pause stops. The key that goes with it: see `Pause`."""

    LANE = "lane"
    TYPE = "type"
    TEMPLATE = "template"
    PROVIDER = "provider"
    API_KEY = "api_key"


HOLDING: Final = frozenset({PauseKind.TYPE, PauseKind.TEMPLATE, PauseKind.API_KEY})
"""Kinds that are told by a delivery's notification: who makes batches has to ask the database which of them it is."""
ONLY_BY_LANE: Final = frozenset({OTP_LANE.name})
"""Lanes that no other pause stops: login codes stand still only where somebody names their lane."""


@dataclass(frozen=True, slots=True)
class Pause:
    """In force since paused_at (aware).

    key: a lane's name; a type; `TYPE/CHANNEL/LOCALE/VERSION` of a template; a provider account's name; an API key's
    UUID. note: why, in the operator's words.
    """

    id: UUID
    kind: PauseKind
    key: str
    note: str
    paused_by: str
    paused_at: datetime

    @property
    def name(self) -> str:
        """What it stops, as people are shown it: an API key by its public id."""
        return public_id(API_KEY, UUID(self.key)) if self.kind is PauseKind.API_KEY else self.key


@dataclass(frozen=True, slots=True)
class QuotaOverride:
    """What an operator set instead of an account's settings; None: as in the settings.

    scope: '' is the whole account, `class:bulk` one class of it, `domain:shop.example` what one sender domain may send
    through it. Days are UTC. ramp_from: first day of a ramp-up, with ramp_per_day messages on it, and each day
    ramp_growth times the day before.
    """

    account: str
    scope: str
    per_second: float | None
    reserve_per_second: float | None
    per_day: int | None
    ramp_from: date | None
    ramp_per_day: int | None
    ramp_growth: float | None


@dataclass(frozen=True, slots=True)
class CallerQuota:
    """What one API key may ask for; type '' is all types together, None no limit."""

    api_key_id: UUID
    type: str
    per_minute: int | None
    per_day: int | None


@dataclass(frozen=True, slots=True)
class Drain:
    """A provider account taken out since drained_at (aware): nothing new goes to it where another can carry it."""

    account: str
    note: str
    drained_by: str
    drained_at: datetime


def template_key(type_name: str, channel: str, locale: str, version: int) -> str:
    """How a pause names one template version."""
    return f"{type_name}/{channel}/{locale}/{version}"


@dataclass(frozen=True)
class Controls:
    """All of it as of one revision, in one snapshot. Two with the same revision say the same.

    quotas by (account, scope), caller_quotas by (API key, type), drains by account.
    """

    revision: int
    pauses: tuple[Pause, ...] = ()
    quotas: Mapping[tuple[str, str], QuotaOverride] = field(default_factory=dict)
    caller_quotas: Mapping[tuple[UUID, str], CallerQuota] = field(default_factory=dict)
    drains: Mapping[str, Drain] = field(default_factory=dict)

    @cached_property
    def _by_kind(self) -> Mapping[PauseKind, Mapping[str, Pause]]:
        return {kind: {each.key: each for each in self.pauses if each.kind is kind} for kind in PauseKind}

    @cached_property
    def holding(self) -> bool:
        """Whether a pause is in force that only a notification's own facts can tell of (`HOLDING`)."""
        return any(self._by_kind[kind] for kind in HOLDING)

    def lane(self, name: str) -> Pause | None:
        """The pause of a lane."""
        return self._by_kind[PauseKind.LANE].get(name)

    def provider(self, account: str, lane: str) -> Pause | None:
        """The pause of a provider account, as far as it concerns the lane."""
        return None if lane in ONLY_BY_LANE else self._by_kind[PauseKind.PROVIDER].get(account)

    def of(self, *, type_name: str, api_key_id: UUID | None, templates: Iterable[str] = ()) -> Pause | None:
        """The pause that holds such a notification, the oldest if several do. templates: as `template_key` names them.

        Asked for no delivery of a lane in `ONLY_BY_LANE`.
        """
        found = [
            self._by_kind[PauseKind.TYPE].get(type_name),
            self._by_kind[PauseKind.API_KEY].get(str(api_key_id)),
            *(self._by_kind[PauseKind.TEMPLATE].get(key) for key in templates),
        ]
        return min((each for each in found if each is not None), key=lambda each: each.paused_at, default=None)


NONE: Final = Controls(revision=0)
"""Nothing said: before anything was read, and in tests."""
