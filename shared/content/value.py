"""What becomes of a value on its way into a part: nothing that a reader would not see, no links made of names."""

import re
import unicodedata
from decimal import Decimal
from typing import Any, Final

from shared.content.problem import RenderError
from shared.core.direction import MARKS, TURNING

_HIDDEN: Final = TURNING | MARKS | {"\ufeff"}
"""What turns the text around it over also does so with what the author wrote."""
_KEPT: Final = frozenset("\n\t\u200c\u200d")
"""Line breaks, and the joiners that Persian and emoji need."""
_LINK_START: Final = re.compile(r":(?=//)|(?<=http):(?=/?$)|(?<=https):(?=/?$)|\bwww(?=\.|$)", re.IGNORECASE)
"""Also a beginning that the next value could complete. Takes time in proportion to the value."""
_SCHEMES: Final = ("https://", "http://", "mailto:", "tel:")


def shown(value: Any) -> str:
    """A value as text: control characters and bidirectional overrides left out.

    RenderError for what has no text of its own: null, lists, objects. `None` or `[1, 2]` in a message is a mistake.
    """
    if type(value) is str and value.isprintable():
        return value
    if not isinstance(value, (str, int, float, Decimal)):
        raise RenderError("null, a list or an object stands where a text should: use default, a loop or join")
    text = str(value)
    if text.isprintable():
        return text
    return "".join(
        character
        for character in text
        if character in _KEPT or (character not in _HIDDEN and unicodedata.category(character) not in {"Cc", "Cs"})
    )


def told(value: Any) -> str:
    """A value among words, where readers' apps make links of what looks like one: its links are broken by a space, so
    that no one has us send theirs under the name of somebody.
    """
    text = shown(value)
    if ":" in text or "www" in text.lower():
        return _LINK_START.sub(_apart, text)
    return text


def told_link(value: Any) -> str:
    """A value that the author means to be a link: it stays if it is one as a whole, else it is `told`."""
    text = shown(value)
    whole = text[:8].lower().startswith(("https://", "http://")) and text.isprintable() and " " not in text
    return text if whole else told(text)


def link(value: Any) -> str:
    """A value where a link begins: nothing, or what a link of a mail or app may be; else RenderError, without it."""
    text = shown(value).strip()
    if text and (not text.lower().startswith(_SCHEMES) or any(character.isspace() for character in text)):
        raise RenderError("a link's value must begin with https://, http://, mailto: or tel:")
    return text


def _apart(found: re.Match[str]) -> str:
    return f"{found[0]} "
