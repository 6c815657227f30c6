"""Ids: UUIDv7 inside, TypeIDs (`ntf_...`) outside (data.md, Identity)."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from uuid import UUID

import uuid_utils.compat
from typeid import TypeID
from typeid.codecs import base32
from typeid.errors import TypeIDException

NOTIFICATION: Final = "ntf"
API_KEY: Final = "key"
EMAIL: Final = "eml"
CONSENT: Final = "cns"
DEVICE: Final = "dev"
IMPORT: Final = "imp"
SUPPRESSION: Final = "sup"
AUDIT: Final = "aud"
REPLAY: Final = "rpl"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARIANT: Final = {f"{digit:x}": "89ab"[digit & 0x3] for digit in range(16)}


class InvalidIdError(ValueError):
    """A public id that is not one of ours; the message says which form is expected."""


def new_id() -> UUID:
    """A fresh UUIDv7 (RFC 9562 section 5.7): reads clock and randomness, increasing within a process."""
    return uuid_utils.compat.uuid7()


@lru_cache(maxsize=16_384)
def public_id(prefix: str, value: UUID) -> str:
    """`ntf_` + the UUID in Crockford base32 (TypeID specification 0.3).

    Kept for a while: one delivery asks for it five times on its way through a worker.
    """
    return f"{prefix}_{base32.encode(value.bytes)}"  # as TypeID.from_uuid, which looks at our prefixes every time


def uuid_text(digest: str, version: int) -> str:
    """The text of the UUID that a hash makes: its first 128 bits (`digest`: hex, lower case), version and variant set.

    As RFC 9562 section 5.5 does with SHA-1; without a UUID object in between, which a push would need twice.
    """
    variant = _VARIANT[digest[16]]
    return f"{digest[:8]}-{digest[8:12]}-{version}{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def parse_public_id(prefix: str, text: str) -> UUID:
    """Inverse of `public_id`; a plain UUID is taken too, because operators paste those from logs."""
    try:
        if "_" not in text:
            return UUID(text)
        parsed = TypeID.from_string(text)
    except (TypeIDException, ValueError) as error:
        raise InvalidIdError(f"{text[:64]!r} is not an id: expected {prefix}_ and 26 characters") from error
    if parsed.prefix != prefix:
        raise InvalidIdError(f"{text[:64]!r} is not a {prefix}_ id")
    return UUID(str(parsed.uuid))


def created_at(value: UUID) -> datetime:
    """The instant in a UUIDv7's first 48 bits (milliseconds since 1970, UTC); InvalidIdError past the year 9999.

    Any UUID can be read as an id, so callers' ids may name moments that no calendar has.
    """
    try:
        return _EPOCH + timedelta(milliseconds=value.int >> 80)
    except OverflowError as error:
        raise InvalidIdError("this id names a moment after the year 9999: it is not one of ours") from error


def lowest_id_at(moment: datetime) -> UUID:
    """The smallest UUID of the millisecond of `moment` (aware): partition bounds, time ranges.

    v7 ids of earlier milliseconds sort below it, those of this one and later at or above it. 48 bits of milliseconds,
    all else zero; PostgreSQL's uuid ordering compares bytewise. Whole numbers only: floats lose milliseconds.
    """
    return UUID(int=(moment - _EPOCH) // timedelta(milliseconds=1) << 80)
