"""Spans of time as they are typed: `30m`, `12h`, `90d`, `4w`."""

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def parse_age(text: str) -> timedelta:
    """Whole minutes, hours, days or weeks; ValueError otherwise."""
    found = re.fullmatch(r"([1-9][0-9]{0,3})([mhdw])", text.strip())
    if found is None:
        raise ValueError("give minutes, hours, days or weeks, like 30m, 12h, 90d or 4w")
    return int(found[1]) * _UNITS[found[2]]
