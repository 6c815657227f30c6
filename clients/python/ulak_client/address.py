"""What stands between `To:` and the line's end. Ulak checks the same more strictly (no DNS either) when it takes it."""

import re
import unicodedata
from typing import Final

from ulak_client.text import check_direction

_LONGEST_NAME: Final = 200
_LONGEST_LOCAL_PART: Final = 64  # octets, RFC 5321 section 4.5.3.1.1
_ADDRESS: Final = re.compile(r"([^\s@<>,;]+)@[^\s@<>,;.]+([.。．｡][^\s@<>,;.]+)+")
"""A domain's dots may be those of Chinese and Japanese keyboards (IDNA2003 section 3.1)."""


def check_mailbox(path: str, text: object) -> None:
    """TypeError or ValueError unless it is `name@example.com` or `Name <name@example.com>`.

    The error says where it is, never which address. A control character is refused anywhere: a line break in a header
    would begin the next one.
    """
    if not isinstance(text, str):
        raise TypeError(f"{path} is {type(text).__name__}: give an address as text")
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text):
        raise ValueError(f"{path} holds a control character: give name@example.com")
    check_direction(path, text)
    name, address = "", text.strip()
    if address.endswith(">"):
        name, _, address = address[:-1].rpartition("<")
    if len(name.strip()) > _LONGEST_NAME:
        raise ValueError(f"{path} has a name longer than {_LONGEST_NAME} characters: shorten it")
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(f"{path} is not an e-mail address: give name@example.com or Name <name@example.com>")
    if len(parts[1].encode()) > _LONGEST_LOCAL_PART:
        raise ValueError(f"{path} has more than {_LONGEST_LOCAL_PART} octets before the @: no server takes it")
