"""Spans of time as they are typed: `30m`, `12h`, `90d`, `4w`; and moments."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import typer

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_age(text: str) -> timedelta:
    """Whole minutes, hours, days or weeks; ValueError otherwise."""
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhdw])", text.strip())
    if found is None:
        raise ValueError("give minutes, hours, days or weeks, like 30m, 12h, 90d or 4w")
    return int(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as an operator means it: so long before now, or at an instant of its own."""

    text: str
    value: timedelta | datetime

    @classmethod
    def parse(cls, text: str) -> "Moment":
        """`2h`, or RFC 3339 with its offset; typer.BadParameter otherwise."""
        try:
            return cls(text, parse_age(text))
        except ValueError as error:
            try:
                at = datetime.fromisoformat(text)
            except ValueError:
                raise typer.BadParameter(f"{error}, or a time like 2026-01-15T09:30:00+03:00") from error
        if at.tzinfo is None:
            raise typer.BadParameter(f"{text} has no offset: give one like 2026-01-15T09:30:00+03:00")
        return cls(text, at)

    def seen_from(self, now: datetime) -> datetime:
        """The instant that is meant."""
        return self.value if isinstance(self.value, datetime) else now - self.value
