"""Numbers and spans of time in words, for a terminal."""

from datetime import datetime
from typing import Final

COUNTED_AT_MOST: Final = 100_000
"""Where counts end: counting all of a table of millions would take what the relay needs."""

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def count(number: int) -> str:
    """`1,204`; a count that ended at its limit says so."""
    return f"{number:,} or more" if number >= COUNTED_AT_MOST else f"{number:,}"


def number(of: int, noun: str) -> str:
    """`1 event`, `2,000 events`: of a count that is exact."""
    return f"{of:,} {noun}{'' if of == 1 else 's'}"


def span(seconds: float) -> str:
    """In the largest unit that is not below one: `0 s`, `59 s`, `3 min`, `7 h`, `12 d`."""
    unit, name = next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])
    return f"{max(0, int(seconds // unit))} {name}"


def moment(at: datetime) -> str:
    """In the operator's time zone, with its offset."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %z}"
