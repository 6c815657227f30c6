"""What may stand in a column: names without control characters, and JSON. Errors name the field, never its content."""

import json
import unicodedata
from collections.abc import Mapping
from typing import Final


def check_text(name: str, value: object, *, longest: int) -> None:
    """TypeError or ValueError unless it is 1 to `longest` characters, none of them a control character."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}: give text")
    if not 0 < len(value) <= longest:
        raise ValueError(f"{name} has {len(value)} characters: give 1 to {longest}")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in value):
        raise ValueError(f"{name} holds a control character: leave it out")


_TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_direction(name: str, text: str) -> None:
    """ValueError if a character turns the text around it over, so that a reader would see another name than it is."""
    found = next((character for character in text if character in _TURNING), None)
    if found is not None:
        raise ValueError(f"{name} holds U+{ord(found):04X}, which turns the text around it over: leave it out")


def json_bytes(name: str, value: object) -> bytes:
    """The value (a mapping) as compact JSON in UTF-8; TypeError or ValueError names what is not JSON in it."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is {type(value).__name__}: give a mapping")
    try:
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} holds half a surrogate pair, which is no character: leave it out") from None
    except TypeError as error:
        raise TypeError(f"{name} is not JSON ({error}): convert it to text, numbers, lists and mappings") from None
    except ValueError as error:
        raise ValueError(f"{name} is not JSON ({error})") from None
