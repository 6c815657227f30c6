"""Characters that turn the text around them over (Unicode UAX 9): what is read is then not what is written."""

from typing import Final

TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Embeddings, overrides and isolates. `Bank <U+202E>moc.elpmaxe` reads `Bank example.com`, `invoice<U+202E>fdp.exe`
reads `invoiceexe.pdf` (Unicode TR 36, section 2.5). Arabic and Hebrew need none: their letters run as they must.
"""
MARKS: Final = frozenset("\u200e\u200f\u061c")
"""Invisible letters of one direction: they turn nothing over."""


def turning_in(text: str) -> str | None:
    """The first such character as `U+202E`; None for a text without."""
    if text.isascii():
        return None
    return next((f"U+{ord(character):04X}" for character in text if character in TURNING), None)
