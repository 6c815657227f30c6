"""How many SMS segments a text takes. Pure, and written apart from the sender's own count, so that the two check
each other.

Sources: 3GPP TS 23.038 (GSM 7-bit default alphabet and its extension table), 3GPP TS 23.040 (concatenation header of
six bytes); Twilio documentation, 'What is the SMS character limit?'.
"""

from collections.abc import Iterable
from typing import Final

_BASIC: Final = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION: Final = frozenset("\f^{}\\[~]|€")
GSM_SINGLE: Final = 160
GSM_PART: Final = 153
UCS2_SINGLE: Final = 70
UCS2_PART: Final = 67


def is_gsm7(text: str) -> bool:
    """Whether the text fits GSM-7 without national shift tables, which Twilio does not use."""
    return all(character in _BASIC or character in _EXTENSION for character in text)


def segments(text: str) -> int:
    """Segments of a text; an empty one takes one.

    A part never splits an escape pair (GSM-7) or a surrogate pair (UCS-2), so parts are packed, not divided.
    """
    if is_gsm7(text):
        return _packed((2 if character in _EXTENSION else 1 for character in text), GSM_SINGLE, GSM_PART)
    return _packed((2 if ord(character) > 0xFFFF else 1 for character in text), UCS2_SINGLE, UCS2_PART)


def _packed(sizes: Iterable[int], single: int, part: int) -> int:
    units = list(sizes)
    if sum(units) <= single:
        return 1
    parts, room = 1, part
    for unit in units:
        if unit > room:
            parts, room = parts + 1, part
        room -= unit
    return parts
