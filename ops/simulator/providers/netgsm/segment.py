"""How many parts Netgsm sends a text in. Pure, and written apart from the sender's own count.

Sources: 3GPP TS 23.038 A.2.1 (Turkish single shift table), TS 23.040 (headers): 160 and 153 septets, with the
table 155 and 149.
"""

from typing import Final

from ops.simulator.providers.twilio.segment import is_gsm7

_TWO: Final = frozenset("\f^{}\\[~]|€")
_TURKISH: Final = frozenset("ĞİŞçğış")


def parts(text: str, encoding: str) -> int | None:
    """None for a text with characters that the encoding does not hold."""
    turkish = encoding == "TR"
    plain = "".join(character for character in text if not (turkish and character in _TURKISH))
    if not is_gsm7(plain):
        return None
    single, part = (155, 149) if turkish and plain != text else (160, 153)
    sizes = [2 if character in _TWO or character in _TURKISH else 1 for character in text]
    if sum(sizes) <= single:
        return 1
    count, room = 1, part
    for size in sizes:
        if size > room:
            count, room = count + 1, part
        room -= size
    return count
