"""SMTP commands as values. Pure.

Sources: RFC 5321 sections 4.1 and 4.5.3 (syntax, limits), RFC 1870 (SIZE), RFC 6152 (8BITMIME), RFC 6531 (SMTPUTF8),
RFC 3463 (enhanced codes).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAX_LOCAL_PART_BYTES: Final = 64
MAX_PATH_BYTES: Final = 254

_PATH: Final = re.compile(
    r"""^(?P<keyword>FROM|TO):[ ]?<(?P<path>(?:"(?:[^"\\]|\\.)*"|[^>"])*)>(?P<rest>.*)$""", re.IGNORECASE | re.DOTALL
)
_SOURCE_ROUTE: Final = re.compile(r"^@[^:]*:")


@dataclass(frozen=True, slots=True)
class SmtpReply:
    """A code with its enhanced code and text, in one or more lines."""

    code: int
    lines: tuple[str, ...]

    @property
    def positive(self) -> bool:
        return self.code < 400

    def encoded(self) -> bytes:
        last = len(self.lines) - 1
        return b"".join(
            f"{self.code}{' ' if index == last else '-'}{line}\r\n".encode() for index, line in enumerate(self.lines)
        )


def reply(code: int, *lines: str) -> SmtpReply:
    return SmtpReply(code, lines)


@dataclass(frozen=True, slots=True)
class Command:
    """verb in upper case; argument as sent, without the blank before it."""

    verb: str
    argument: str


@dataclass(frozen=True, slots=True)
class Path:
    """An address of MAIL or RCPT with its parameters, names in upper case; the null sender is an empty address."""

    address: str
    params: Mapping[str, str] = field(default_factory=dict)


def parse_command(line: bytes) -> Command | None:
    """One command line without its line end; None if it is not UTF-8."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return None
    verb, _, argument = text.partition(" ")
    return Command(verb.upper(), argument.strip())


def parse_path(keyword: str, argument: str) -> Path | SmtpReply:
    """The path of `MAIL FROM:<...>` or `RCPT TO:<...>`, or the reply that refuses its form."""
    match = _PATH.match(argument)
    if match is None or match["keyword"].upper() != keyword:
        return reply(501, f"5.5.4 Syntax: {keyword}:<address>")
    params = {}
    for word in match["rest"].split():
        name, _, value = word.partition("=")
        params[name.upper()] = value
    return Path(_SOURCE_ROUTE.sub("", match["path"]), params)


def refused_sender(path: Path, max_size: int) -> SmtpReply | None:
    """Why MAIL is refused, or None. The null sender is allowed."""
    size = path.params.get("SIZE", "0")
    if not (size.isascii() and size.isdigit()):
        return reply(501, "5.5.4 SIZE needs a number")
    if int(size) > max_size:
        return reply(552, "5.3.4 Message size exceeds fixed limit")
    if path.params.get("BODY", "7BIT").upper() not in {"7BIT", "8BITMIME"}:
        return reply(501, "5.5.4 BODY is 7BIT or 8BITMIME")
    unknown = sorted(set(path.params) - {"SIZE", "BODY", "SMTPUTF8", "AUTH"})
    if unknown:
        return reply(555, f"5.5.4 Parameter {unknown[0]} not recognized")
    return _refused_address(path.address, utf8="SMTPUTF8" in path.params) if path.address else None


def refused_recipient(path: Path, *, utf8: bool) -> SmtpReply | None:
    """Why RCPT is refused, or None. Local parts with a programmed prefix are refused as real servers would."""
    if path.params:
        return reply(555, f"5.5.4 Parameter {min(path.params)} not recognized")
    if path.address.lower() == "postmaster":
        return None
    refused = _refused_address(path.address, utf8=utf8)
    if refused is not None:
        return refused
    return next((answer for prefix, answer in LOCAL_PART_PREFIXES.items() if path.address.startswith(prefix)), None)


LOCAL_PART_PREFIXES: Final[Mapping[str, SmtpReply]] = {
    "unknown-": reply(550, "5.1.1 User unknown"),
    "disabled-": reply(550, "5.2.1 Mailbox disabled"),
    "mailbox-full-": reply(452, "4.2.2 Mailbox full"),
    "greylisted-": reply(451, "4.7.1 Greylisted, try again later"),
}
"""Recipients that begin so are always refused like that; for one that gives way, program a fault with `times`."""


def _refused_address(address: str, *, utf8: bool) -> SmtpReply | None:
    local, at, domain = address.rpartition("@")
    if not at or not local or not domain or any(character.isspace() for character in domain):
        return reply(501, "5.1.3 Bad address syntax")
    if not address.isascii() and not utf8:
        return reply(553, "5.6.7 Non-ASCII address needs SMTPUTF8")
    if len(local.encode()) > MAX_LOCAL_PART_BYTES or len(address.encode()) > MAX_PATH_BYTES:
        return reply(501, "5.1.3 Address too long")
    return None
