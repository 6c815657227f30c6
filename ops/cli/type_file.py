"""Notification types in catalogue files: what one says, and the type it means. Reads only.

types:
  NOVEMBER_SALE:
    category: MARKETING                   # class, channels, ttl, promises, sender, retentionDays, sample
    quietHours: {start: "22:00", end: "09:00", spread: 15m}     # or none; left out: the category's
    contentWindow: 24h                    # the same business key again is one message; 0s: none
    fallback: [EMAIL]                     # for want of a target; left out: the category's
    sms: {maxSegments: 1, overflow: refuse}
    parameters: {type: object, ...}       # JSON Schema of params
"""

import re
from datetime import time, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shared.core.catalogue import CONTENT_WINDOW, NotificationType, default_fallback, default_quiet_hours
from shared.core.quiet_hours import QuietHours
from shared.core.type_definition import message_class
from shared.wire.channel import Category, Promise

_DURATION: Final = re.compile(r"(\d+)\s*([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(value: object) -> object:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        return timedelta(seconds=value)
    raise ValueError("give a duration like 180s, 15m, 12h or 2d")


def _clock(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", value):
        return time.fromisoformat(value)
    raise ValueError('give a time of the day like "22:00", in quotes')


Duration = Annotated[timedelta, BeforeValidator(_seconds)]
Clock = Annotated[time, BeforeValidator(_clock)]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class QuietHoursEntry(_Entry):
    start: Clock
    end: Clock
    spread: Duration = timedelta(minutes=15)


class SmsEntry(_Entry):
    max_segments: int | None = Field(default=None, alias="maxSegments")
    overflow: Literal["warn", "refuse"] = "warn"


class TypeEntry(_Entry):
    category: Category
    channels: list[str] = Field(min_length=1)
    ttl: Duration
    message_class: Literal["critical", "tx", "bulk", "low"] | None = Field(default=None, alias="class")
    promises: dict[str, Promise] = Field(default_factory=dict)
    sender: Name | None = None
    retention_days: int = Field(default=90, ge=1, le=90, alias="retentionDays")
    quiet_hours: QuietHoursEntry | Literal["none"] | None = Field(default=None, alias="quietHours")
    content_window: Duration = Field(default=CONTENT_WINDOW, alias="contentWindow")
    fallback: list[str] | None = None
    sms: SmsEntry = Field(default_factory=SmsEntry)
    parameters: dict[str, Any] | None = None
    sample: dict[str, Any] = Field(default_factory=dict)

    def named(self, name: str) -> NotificationType:
        """The type it means. ValueError for quiet hours that start when they end."""
        return NotificationType(
            name=name,
            category=self.category,
            message_class=message_class(self.category, self.message_class),
            default_channels=tuple(self.channels),
            ttl=self.ttl,
            promises=self.promises,
            sender_profile=self.sender,
            quiet_hours=self._quiet_hours(),
            content_window=self.content_window,
            fallback_channels=default_fallback(self.category) if self.fallback is None else tuple(self.fallback),
            max_sms_segments=self.sms.max_segments,
            refuse_sms_overflow=self.sms.overflow == "refuse",
            parameter_schema=self.parameters,
            sample=self.sample,
        )

    def _quiet_hours(self) -> QuietHours | None:
        match self.quiet_hours:
            case None:
                return default_quiet_hours(self.category)
            case QuietHoursEntry() as given:
                return QuietHours(given.start, given.end, given.spread)
            case _:
                return None
