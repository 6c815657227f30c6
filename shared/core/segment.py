"""SMS segments: how a text is packed, and so what it costs (cases S1, S3).

Sources: 3GPP TS 23.038 (default alphabet 6.2.1, Turkish tables A.2.1 and A.3.1), TS 23.040 9.2.3.24 (user data header).
A character is one or two units long and is never cut in two, so segments are packed, not divided.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Encoding(StrEnum):
    """How a text travels; which ones a provider offers is data of that provider."""

    GSM7 = "GSM7"
    GSM7_TURKISH_SINGLE = "GSM7_TURKISH_SINGLE"
    """Default alphabet, Turkish single shift table: Ğ İ Ş ç ğ ı ş cost two septets."""
    GSM7_TURKISH_BOTH = "GSM7_TURKISH_BOTH"
    """Turkish locking and single shift tables: Turkish letters cost one septet, the header costs more."""
    UCS2 = "UCS2"


TWILIO_ENCODINGS: Final = (Encoding.GSM7, Encoding.UCS2)
"""Twilio sends UCS-2 whatever is not in GSM-7; it uses no national shift tables."""
ALL_ENCODINGS: Final = tuple(Encoding)


@dataclass(frozen=True, slots=True)
class Segments:
    """One text, packed. `units` are septets (GSM-7) or UTF-16 code units (UCS-2), headers not counted."""

    encoding: Encoding
    count: int
    units: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Units of a lone message and of one part of several: 160/153, 155/149, 152/146, 70/67 in the order of Encoding.
    `costs` are units per character, None for UCS-2.
    """

    single: int
    part: int
    costs: Mapping[str, int] | None


_BASIC: Final = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION: Final = "\f^{}\\[~]|€"
_TURKISH_EXTENSION: Final = _EXTENSION + "ĞİŞçğış"
_TURKISH_BASIC: Final = _BASIC.translate(str.maketrans("èìØøÆæ¡¿", "€ıĞğŞşİç"))


def _costs(one: str, two: str) -> Mapping[str, int]:
    return dict.fromkeys(two, 2) | dict.fromkeys(one, 1)


def _septets(header_octets: int) -> int:
    """What a user data header leaves of 140 octets, in septets: it is padded to a septet boundary."""
    return (140 * 8 - header_octets * 8) // 7


_CONCATENATION: Final = 5
_SHIFT: Final = 3
_LENGTH: Final = 1

_LAYOUTS: Final[Mapping[Encoding, _Layout]] = {
    Encoding.GSM7: _Layout(_septets(0), _septets(_LENGTH + _CONCATENATION), _costs(_BASIC, _EXTENSION)),
    Encoding.GSM7_TURKISH_SINGLE: _Layout(
        _septets(_LENGTH + _SHIFT), _septets(_LENGTH + _CONCATENATION + _SHIFT), _costs(_BASIC, _TURKISH_EXTENSION)
    ),
    Encoding.GSM7_TURKISH_BOTH: _Layout(
        _septets(_LENGTH + 2 * _SHIFT),
        _septets(_LENGTH + _CONCATENATION + 2 * _SHIFT),
        _costs(_TURKISH_BASIC, _TURKISH_EXTENSION),
    ),
    Encoding.UCS2: _Layout(140 // 2, (140 - _LENGTH - _CONCATENATION) // 2, None),
}


def pack(text: str, encoding: Encoding) -> Segments | None:
    """The text in one encoding, or None if a character is not in it: none is ever replaced (S3).

    An empty text is one segment, as providers bill it.
    """
    layout = _LAYOUTS[encoding]
    costs = _units(text, layout)
    if costs is None:
        return None
    units = sum(costs)
    return Segments(encoding, 1 if units <= layout.single else _parts(costs, layout.part)[0], units)


def segments(text: str, encodings: Iterable[Encoding] = TWILIO_ENCODINGS) -> Segments:
    """The cheapest way to send the text in one of `encodings`; at equal cost the one named first.

    ValueError if none of them holds every character: UCS-2 holds all.
    """
    cheapest: Segments | None = None
    for encoding in encodings:
        found = pack(text, encoding)
        if found is not None and (cheapest is None or found.count < cheapest.count):
            cheapest = found
            if found.count == 1:
                break  # most texts; none is cheaper
    if cheapest is None:
        raise ValueError("no encoding offered holds every character of the text: offer UCS2")
    return cheapest


def room(text: str, encoding: Encoding) -> int:
    """Units that the last segment has left; the text can be written in the encoding."""
    layout = _LAYOUTS[encoding]
    costs = _units(text, layout)
    if costs is None:
        raise ValueError(f"{encoding} does not hold every character of the text")
    units = sum(costs)
    return layout.single - units if units <= layout.single else _parts(costs, layout.part)[1]


def _units(text: str, layout: _Layout) -> Sequence[int] | None:
    """Units of each character; None if one is not in the encoding."""
    known = layout.costs
    if known is None:
        return [2 if ord(character) > 0xFFFF else 1 for character in text]
    if any(character not in known for character in text):
        return None
    return [known[character] for character in text]


def _parts(costs: Sequence[int], size: int) -> tuple[int, int]:
    """How many parts of that size, and what is left of the last."""
    count, left = 1, size
    for cost in costs:
        if cost > left:
            count, left = count + 1, size
        left -= cost
    return count, left
