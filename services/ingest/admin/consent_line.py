"""One line of the ledger as callers and imports tell it: checked by itself, then put into the ledger with others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from shared.core.address import InvalidAddressError, parse_email, parse_phone, target_key
from shared.core.consent import (
    TOLD,
    InvalidConsentError,
    Line,
    Purpose,
    RecipientKind,
    Source,
    Word,
    check_word,
    user_subject,
)
from shared.core.identifier import new_id
from shared.core.sealing import KeyRing
from shared.postgres.consent import Person, append, find_people
from shared.postgres.pool import Connection
from shared.web.invalid import invalid_fields
from shared.web.model import PRINTABLE, Body, Instant, Key, UserId
from shared.web.problem import FieldError

CHANNELS: Final = ("EMAIL", "SMS", "PUSH", "INBOX")
_OF_ADDRESS: Final = frozenset({"EMAIL", "SMS"})


def _told(source: Source) -> Source:
    if source not in TOLD:
        raise ValueError(f"is Ulak's own: send one of {', '.join(sorted(TOLD))}")
    return source


ToldSource = Annotated[Source, Field(strict=False), AfterValidator(_told)]


class ConsentBody(Body):
    """What somebody said about being written to. On EMAIL and SMS it belongs to the address, else to the user."""

    user_id: UserId | None = Field(default=None, description="Who said it; needed on PUSH and INBOX.")
    address: Annotated[str, StringConstraints(min_length=3, max_length=320)] | None = Field(
        default=None, description="What it was said about; left out, the address that is known of the user."
    )
    channel: Literal["EMAIL", "SMS", "PUSH", "INBOX"]
    purpose: Literal["MARKETING", "TRACKING"] = "MARKETING"
    granted: bool = Field(description="false: refused, or withdrawn.")
    at: Instant = Field(description="When the person said so: the latest word stands, and of two at once the refusal.")
    source: ToldSource = Field(description="By which way, in the codes of İYS.")
    wording_version: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=PRINTABLE)] | None = None
    evidence: Annotated[str, StringConstraints(min_length=1, max_length=2000)] | None = Field(
        default=None, description="Proof: a form's number, an IP address, a recording. Kept sealed."
    )
    recipient_kind: Literal["BIREYSEL", "TACIR"] = "BIREYSEL"
    reference: Key | None = Field(
        default=None,
        description="The caller's own id of this word: the same again, from this source, is no second line.",
    )


@dataclass(frozen=True, slots=True)
class Entered:
    """A line in the ledger. recorded: new; else its reference was known. stands: it is what counts now."""

    line: Line
    recorded: bool
    stands: bool


def read_consent(item: object, now: datetime) -> ConsentBody | tuple[FieldError, ...]:
    """One line, parsed from JSON; or what is wrong in it, field by field, never repeating a value."""
    try:
        body = ConsentBody.model_validate(item)
    except ValidationError as error:
        return tuple(invalid_fields(error).errors)
    try:
        check_word(Word(body.granted, body.at), body.source, now)
        if body.address is not None:
            _canonical(body.channel, body.address)
    except InvalidConsentError as error:
        return (FieldError(error.path, error.detail),)
    except InvalidAddressError as error:
        return (FieldError("address", str(error)),)
    if body.channel not in _OF_ADDRESS and body.address is not None:
        return (FieldError("address", f"on {body.channel} a consent is the user's: leave the address out"),)
    if body.user_id is None and body.address is None:
        wanted = "userId or address" if body.channel in _OF_ADDRESS else "userId"
        return (FieldError(wanted.partition(" ")[0], f"say whose consent it is: send {wanted}"),)
    return body


async def enter_consents(
    connection: Connection, ring: KeyRing, bodies: Sequence[ConsentBody], *, recorded_by: str
) -> list[Entered | FieldError]:
    """Append checked lines in the caller's transaction, one answer each, in order; users are made at first sight.

    FieldError: no address is known of the user on that channel. Raises what asyncpg raises.
    """
    named = {str(body.user_id) for body in bodies if body.user_id is not None}
    people = await find_people(connection, named, create=True)
    found = [_line(body, people, ring, recorded_by) for body in bodies]
    lines = [line for line in found if isinstance(line, Line)]
    appended = await append(connection, ring, lines)
    return [
        Entered(line, line.id in appended.recorded, line.id in appended.standing) if isinstance(line, Line) else line
        for line in found
    ]


def _line(body: ConsentBody, people: Mapping[str, Person], ring: KeyRing, recorded_by: str) -> Line | FieldError:
    person = None if body.user_id is None else people[str(body.user_id)]
    subject: bytes
    if body.channel not in _OF_ADDRESS:
        assert person is not None  # or `read_consent` had refused it
        subject = user_subject(ring, person.user_id)
    elif body.address is not None:
        subject = target_key(ring, body.channel, _canonical(body.channel, body.address)[0])
    elif person is not None and body.channel in person.addresses:
        subject = person.addresses[body.channel][0]
    else:
        return FieldError("address", f"no {body.channel} address is known of this user: send it")
    return Line(
        id=new_id(),
        subject=subject,
        channel=body.channel,
        granted=body.granted,
        at=body.at,
        source=body.source,
        purpose=Purpose(body.purpose),
        user_id=None if person is None else person.user_id,
        address=None if body.address is None else _canonical(body.channel, body.address)[1],
        recipient_kind=RecipientKind(body.recipient_kind),
        wording_version=body.wording_version,
        evidence=body.evidence,
        reference=body.reference,
        recorded_by=recorded_by,
    )


def _canonical(channel: str, address: str) -> tuple[str, str]:
    """What decides sameness, and what is kept; InvalidAddressError."""
    if channel == "EMAIL":
        parsed = parse_email(address)
        return parsed.canonical, parsed.text
    number = parse_phone(address)
    return number, number
