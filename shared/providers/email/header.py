"""Header fields as bytes (RFC 5322, 2047, 2231, 6532): folded, and never more than the one field asked for. Pure.

The standard library's policies are not used to write them: docs/adr/0006.
"""

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import AnyStr, Final

from shared.core.address import InvalidAddressError, parse_email

_LINE: Final = 76
"""RFC 2047 section 2: a line with an encoded word. Others are folded there as well, where they can be."""
_WORD: Final = 75
"""An encoded word with its delimiters (the same section)."""
_FRAME: Final = len("=?utf-8?q?" + "?=")
_LONGEST_TOKEN: Final = 400
"""Text without a blank is folded nowhere. A longer one goes into encoded words, as no line may pass 998 bytes."""

_FOLD: Final = "\r\n "
_BREAKS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_PRINTABLE: Final = re.compile(r"[ -~]*")
_ADDRESS: Final = re.compile(r'[^\s\x00-\x1f\x7f-\x9f()<>\[\]:;@\\,"]+@[A-Za-z0-9.-]+')
_ATOMS: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+")
_ID: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,200}")
_PLAIN_VALUE: Final = re.compile(r"[A-Za-z0-9!#$&'()+,.=@^_`{}~ -]{1,60}")

_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_Q: Final = tuple(
    chr(byte) if byte in _LETTERS + b"!*+-/" else "_" if byte == 0x20 else f"={byte:02X}" for byte in range(256)
)
"""The Q encoding of each byte, as it may stand in any field (RFC 2047 section 5 (3))."""
_PERCENT: Final = tuple(chr(byte) if byte in _LETTERS + b"!#$&+-.^_`{}~" else f"%{byte:02X}" for byte in range(256))
"""The same for parameters (RFC 2231 section 7)."""


class InvalidMailError(ValueError):
    """A message that cannot be a mail; what is wrong, without anything of its content."""


def one_line(text: str) -> str:
    """Text as a header can show it: a run of blanks, line ends and control characters is one blank, none at the ends.

    So nothing that is written into a field can end it.
    """
    return _BREAKS.sub(" ", text).strip(" ")


def text_field(name: str, text: str) -> bytes:
    """A field of free text, like Subject."""
    text = one_line(text)
    room = _LINE - len(name) - 2
    if _is_plain(text):
        return _field(name, _packed([f" {token}" for token in text.split(" ")], room + 1, _LINE))
    return _field(name, [f" {word}" for word in _encoded_words(text, room)])


def token_field(name: str, value: str) -> bytes:
    """A field that holds a value of ours, as `token`."""
    return f"{name}: {token(name, value)}\r\n".encode("ascii")


def token(name: str, value: str) -> str:
    """A field's value of ours in one line, as it is; InvalidMailError for what is not printable ASCII."""
    if len(value) > _LONGEST_TOKEN or not _PRINTABLE.fullmatch(value):
        raise InvalidMailError(f"not a value for {name}")
    return value


def message_id(reference: str, domain: str) -> str:
    """The Message-ID of a reference; InvalidMailError for one that cannot stand in it."""
    if not _ID.fullmatch(reference):
        raise InvalidMailError("the reference cannot stand in a Message-ID")
    return f"<{reference}@{domain}>"


def mailboxes_field(name: str, mailboxes: Sequence[tuple[str, str]], *, utf8: bool = False) -> bytes:
    """A field of mailboxes, each a display name ('' for none) and an address of `wire_address`; a line each.

    Without utf8, an address with a non-ASCII local part is shown as the name of an empty group (RFC 6858 section 2):
    readers see who else was written to, and no server meets an address that it cannot read.
    """
    lines = []
    room = _LINE - len(name) - 2
    for display, address in mailboxes:
        lines.append(" " + _mailbox(one_line(display), address, room, utf8=utf8))
        room = _LINE - 1
    return _field(name, [line + "," for line in lines[:-1]] + lines[-1:])


def wire_address(text: str) -> str:
    """The address as it travels, its domain as A-label (E2).

    InvalidMailError for what can stand in no command and no field.
    """
    try:
        if not text.isascii() and not text.rpartition("@")[2].isascii():
            text = parse_email(text).text
    except InvalidAddressError as error:
        raise InvalidMailError(str(error)) from error
    if not _ADDRESS.fullmatch(text):
        raise InvalidMailError("not an address that a mail can be sent to or from")
    return text


def needs_smtputf8(address: str) -> bool:
    """Whether only servers with SMTPUTF8 understand an address of `wire_address`."""
    return not address.isascii()


def parameter(name: str, value: str) -> bytes:
    """A parameter to append to a structured field, each of its lines folded (RFC 2231)."""
    value = one_line(value)
    if _PLAIN_VALUE.fullmatch(value):
        return f';\r\n {name}="{value}"'.encode("ascii")
    characters = ["".join(_PERCENT[byte] for byte in character.encode()) for character in value]
    room = _LINE - len(f" {name}*00*=utf-8'';")
    first, *others = _packed(characters, room, room)
    if not others:
        return f";\r\n {name}*=utf-8''{first}".encode("ascii")
    lines = [f"{name}*0*=utf-8''{first}", *(f"{name}*{index}*={piece}" for index, piece in enumerate(others, 1))]
    return "".join(f";\r\n {line}" for line in lines).encode("ascii")


def _field(name: str, lines: Sequence[str]) -> bytes:
    """A field in these lines, each of which begins with a blank."""
    return (f"{name}:" + "\r\n".join(lines) + "\r\n").encode()


def _is_plain(text: str) -> bool:
    """Whether text may stand as it is. What looks like an encoded word would be read as one."""
    return (
        _PRINTABLE.fullmatch(text) is not None and "=?" not in text and max(map(len, text.split(" "))) <= _LONGEST_TOKEN
    )


def _mailbox(display: str, address: str, room: int, *, utf8: bool) -> str:
    if needs_smtputf8(address) and not utf8:
        return _FOLD.join(_encoded_words(f"{display} {address}".strip(), room)) + " :;"
    if not display:
        return address
    if not _is_plain(display):
        lines = _encoded_words(display, room)
    elif _ATOMS.fullmatch(display):
        lines = [display]
    else:
        lines = ['"' + display.replace("\\", "\\\\").replace('"', '\\"') + '"']
    if len(lines[-1]) + len(address) + len(" <>") <= (room if len(lines) == 1 else _LINE - 1):
        lines[-1] += f" <{address}>"
    else:
        lines.append(f"<{address}>")
    return _FOLD.join(lines)


def _encoded_words(text: str, first_room: int) -> list[str]:
    """RFC 2047 words that read as exactly this text, no character cut in two, in the shorter encoding.

    first_room: what the first word may take, more than any one character needs.
    """
    characters = [_q(character) for character in text]
    if sum(map(len, characters)) <= -(-len(text.encode()) // 3) * 4:
        return [f"=?utf-8?q?{piece}?=" for piece in _packed(characters, first_room - _FRAME, _WORD - _FRAME)]
    pieces = _packed([character.encode() for character in text], *(_base64_room(n) for n in (first_room, _WORD)))
    return [f"=?utf-8?b?{base64.b64encode(piece).decode('ascii')}?=" for piece in pieces]


@lru_cache(maxsize=1024)
def _q(character: str) -> str:
    return "".join(_Q[byte] for byte in character.encode())


def _base64_room(room: int) -> int:
    return (room - _FRAME) // 4 * 3


def _packed(units: Sequence[AnyStr], first: int, rest: int) -> list[AnyStr]:
    """Units joined into as few pieces as their order allows, the first of at most `first`, the others of `rest`.

    A unit that is longer than that stands alone.
    """
    if units and sum(map(len, units)) <= first:
        return [units[0][:0].join(units)]
    pieces: list[list[AnyStr]] = []
    length, room = 0, first
    for unit in units:
        if not pieces or length + len(unit) > room:
            room = rest if pieces else first
            pieces.append([])
            length = 0
        pieces[-1].append(unit)
        length += len(unit)
    return [piece[0][:0].join(piece) for piece in pieces]
