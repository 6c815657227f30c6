"""Canonical forms of addresses and their keys (cases E2, E3, S4).

The address as given is what is sent to; the canonical form only decides sameness (dedup, suppression, target keys).
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

import phonenumbers
from email_validator import EmailNotValidError, validate_email

from shared.core.direction import turning_in
from shared.core.sealing import KeyRing, keyed_hash

DEFAULT_REGION: Final = "TR"
_LONGEST_NAME: Final = 200
_CONTROLS: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Controls, half surrogates, and Unicode's own line and paragraph separators."""
_LONGEST_LOCAL_PART: Final = 64  # octets, RFC 5321 4.5.3.1.1
_SENDABLE_PHONES: Final = frozenset(
    {
        phonenumbers.PhoneNumberType.MOBILE,
        phonenumbers.PhoneNumberType.FIXED_LINE_OR_MOBILE,
        phonenumbers.PhoneNumberType.PERSONAL_NUMBER,
    }
)


class InvalidAddressError(ValueError):
    """An address that can never be sent to; the message says what to change and never repeats the address."""


@dataclass(frozen=True, slots=True)
class EmailAddress:
    """`text` is sent to; `canonical` decides sameness: domain as A-label in lower case, local part as given.

    The local part is compared after ASCII lower-casing only: `mıke` and `mike`, `İ` and `i` stay different
    (E3; Django CVE-2019-19844).
    """

    text: str
    canonical: str

    @property
    def needs_smtputf8(self) -> bool:
        return not self.text.rpartition("@")[0].isascii()


def parse_email(text: str) -> EmailAddress:
    """Check syntax (no DNS) by RFC 5321/5322/6531 rules; InvalidAddressError otherwise."""
    try:
        checked = validate_email(text, check_deliverability=False, allow_smtputf8=True)
    except EmailNotValidError as error:
        raise InvalidAddressError("not an e-mail address: give one like name@example.com") from error
    if len(checked.local_part.encode()) > _LONGEST_LOCAL_PART:
        raise InvalidAddressError("the part before the @ is longer than 64 octets: no server takes it")
    local = "".join(c.lower() if c.isascii() else c for c in checked.local_part)
    domain = (checked.ascii_domain or checked.domain).lower()
    return EmailAddress(text=f"{checked.local_part}@{domain}", canonical=f"{local}@{domain}")


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address with the name shown beside it ('' for none); str gives it back as `Name <address>`."""

    name: str
    address: EmailAddress

    def __str__(self) -> str:
        if not self.name:
            return self.address.text
        escaped = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}" <{self.address.text}>'


def parse_mailbox(text: str) -> Mailbox:
    """`name@example.com` or `Name <name@example.com>` (RFC 5322 section 3.4); InvalidAddressError otherwise.

    A line break or another control character anywhere is refused: in a header it would begin the next one. So is what
    turns text over: a name could then be read as another one, or as an address.
    """
    if any(unicodedata.category(character) in _CONTROLS for character in text):
        raise InvalidAddressError("a control character in an address: give name@example.com")
    if (turning := turning_in(text)) is not None:
        raise InvalidAddressError(f"{turning} in an address, which turns the text around it over: leave it out")
    name, address = "", text.strip()
    if address.endswith(">"):
        name, _, address = address[:-1].rpartition("<")
        name = name.strip()
        if "<" in name and not name.startswith('"'):
            raise InvalidAddressError("several addresses in one place: give each for itself")
        if name.startswith('"') and name.endswith('"') and len(name) > 1:
            name = re.sub(r"\\(.)", r"\1", name[1:-1])
    if len(name) > _LONGEST_NAME:
        raise InvalidAddressError(f"a name longer than {_LONGEST_NAME} characters: shorten it")
    return Mailbox(name, parse_email(address))


def parse_phone(text: str, *, default_region: str = DEFAULT_REGION) -> str:
    """One canonical E.164 number for every way to write it (S4), or InvalidAddressError.

    National forms are read in `default_region`; digits of any script and the `+90 (0)532` habit are understood.
    Numbers that cannot take an SMS (landlines, premium rate) are refused.
    """
    folded = unicodedata.normalize("NFKC", text).strip()
    if folded.startswith(("+", "00")):
        folded = folded.replace("(0)", "")
    if any(character.isalpha() for character in folded):  # would be dialled as a vanity number, or is an extension
        raise InvalidAddressError("letters in a phone number: give it in E.164, like +905321234567")
    try:
        number = phonenumbers.parse(folded, default_region)
    except phonenumbers.NumberParseException as error:
        raise InvalidAddressError("not a phone number: give it in E.164, like +905321234567") from error
    if number.extension:
        raise InvalidAddressError("a number with an extension cannot take an SMS: give it in E.164")
    if not phonenumbers.is_valid_number(number):
        raise InvalidAddressError("not a valid phone number of its country: give it in E.164, like +905321234567")
    if phonenumbers.number_type(number) not in _SENDABLE_PHONES:
        raise InvalidAddressError("this kind of number cannot take an SMS: give a mobile number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def target_key(ring: KeyRing, channel: str, canonical: str) -> bytes:
    """The delivery row's key for one address: a keyed hash, 32 bytes.

    Addresses are sealed with this key as their row (purpose `address-v1`), so the same sealed bytes can stand in
    `recipients`, `devices` and `deliveries` without being opened in between.
    """
    return keyed_hash(ring, f"target:{channel}", canonical)


def masked(channel: str, address: str) -> str:
    """What an operator or caller may see of an address: `+90*******67`, `a***@example.com`, `dev…1f9c`."""
    if channel == "EMAIL":
        local, _, domain = address.rpartition("@")
        return f"{local[:1]}***@{domain}"
    if channel == "SMS":
        return f"{address[:3]}{'*' * max(0, len(address) - 5)}{address[-2:]}"
    return f"…{address[-4:]}"
