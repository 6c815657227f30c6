"""What holds by country: numbers begin with their country's code, so the longest code that fits decides. Pure."""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, Generic, TypeVar

T = TypeVar("T")

ELSEWHERE: Final = "*"
_CODE: Final = re.compile(r"\+[1-9][0-9]{0,6}")
_NUMBER: Final = re.compile(r"\+?[0-9]{3,15}")


class ByCountry(Generic[T]):
    """Values by the beginning of a number in E.164: `+90`, `+1`, `+1876`; `*` is everywhere else."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self._values = values

    @cached_property
    def _longest(self) -> int:
        return max((len(code) for code in self._values), default=0)

    def at(self, number: str) -> T | None:
        """The value for a number; None where nothing is said about it."""
        for length in range(min(self._longest, len(number)), 1, -1):
            found = self._values.get(number[:length])
            if found is not None:
                return found
        return self._values.get(ELSEWHERE)


def parse_by_country(text: str, parse: Callable[[str], T]) -> ByCountry[T]:
    """`+90=SHOP,+1=+12025550123,*=SHOP`: entries separated by commas; ValueError, also parse's own."""
    values: dict[str, T] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        code, separator, value = (part.strip() for part in entry.partition("="))
        if not separator or not value or not (code == ELSEWHERE or _CODE.fullmatch(code)):
            raise ValueError("entries are a country code or *, =, and the value: +90=..., separated by commas")
        if code in values:
            raise ValueError(f"{code} is there twice: leave one")
        values[code] = parse(value)
    return ByCountry(values)


def parse_sender_id(text: str) -> str:
    """A number, or up to 11 letters, digits and blanks (3GPP TS 23.040 9.1.2.5); ValueError."""
    if _NUMBER.fullmatch(text) or re.fullmatch(r"(?=.*[A-Za-z])[A-Za-z0-9 ._&+-]{1,11}", text):
        return text
    raise ValueError("a sender id is a number, or up to 11 characters with a letter among them")


def sender_for(number: str, wanted: str | None, senders: ByCountry[str]) -> str | None:
    """Who a message to the number is from; None: the account's own.

    wanted: the template's own id, which comes first, but where the country's sender is a number: there carriers take no
    names (North America), and would refuse the message.
    """
    of_country = senders.at(number)
    if wanted is None:
        return of_country
    if of_country is not None and _NUMBER.fullmatch(of_country) and not _NUMBER.fullmatch(wanted):
        return of_country
    return wanted
