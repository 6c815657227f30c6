"""Bodies and answers about recipients (docs/openapi/ingest.json), and a whole recipient made of what a change names."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from shared.core.address import masked, parse_email
from shared.core.sealing import KeyRing, SealError
from shared.postgres.recipient_record import NewRecipient, SealedAddress, StoredRecipient
from shared.profile.recipient import (
    MAX_ATTRIBUTES_BYTES,
    Attributes,
    Email,
    Phone,
    RecipientFields,
    check_attributes,
    read_email,
    read_phone,
)
from shared.web.model import Answer, Body
from shared.web.problem import FieldError

_UNREADABLE: Final = "…"
"""What is shown of an address that does not open: under a key that this process does not have."""


class RecipientBody(RecipientFields):
    """All that is known of a recipient afterwards; in a PATCH, what is to be another. null is "not known"."""

    attributes: Attributes | None = Field(
        default=None,
        description=f"At most {MAX_ATTRIBUTES_BYTES} bytes. A PATCH merges it (RFC 7396): null removes a member.",
    )


class RecipientAnswer(Answer):
    """A recipient. Addresses are masked, but where `reveal=true` asks for them."""

    user_id: str
    email: str | None = Field(examples=["a***@example.com"])
    phone: str | None = Field(examples=["+90*******67"])
    locale: str | None
    time_zone: str | None
    attributes: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class SearchBody(Body):
    """One of the two; in the body, because addresses in URLs end up in logs."""

    email: Email | None = None
    phone: Phone | None = None


class FoundAnswer(Answer):
    user_id: str


class SearchAnswer(Answer):
    items: list[FoundAnswer]
    cursor: str | None


def whole(body: RecipientBody) -> NewRecipient | Sequence[FieldError]:
    """What a PUT says: whatever it leaves out is not known. All addresses that are none, at once."""
    email, phone = read_email(body.email), read_phone(body.phone)
    if isinstance(email, FieldError) or isinstance(phone, FieldError):
        return [each for each in (email, phone) if isinstance(each, FieldError)]
    return NewRecipient(email, phone, body.locale, body.time_zone, body.attributes or {})


def patched(
    stored: StoredRecipient, body: RecipientBody, said: NewRecipient, ring: KeyRing
) -> NewRecipient | FieldError:
    """The stored recipient with what a PATCH names; said is `whole` of it.

    FieldError for attributes that have grown too large. Raises a SealError for a kept address that does not open.
    """
    named = body.model_fields_set
    attributes = said.attributes
    if "attributes" not in named:
        attributes = stored.attributes
    elif body.attributes is not None:
        attributes = merged(stored.attributes, body.attributes)
        try:
            check_attributes(attributes)
        except ValueError as error:
            return FieldError("attributes", str(error))
    return NewRecipient(
        said.email if "email" in named or stored.email is None else parse_email(stored.email.open(ring)),
        said.phone if "phone" in named or stored.phone is None else stored.phone.open(ring),
        said.locale if "locale" in named else stored.locale,
        said.time_zone if "time_zone" in named else stored.time_zone,
        attributes,
    )


def merged(target: Any, patch: Any) -> Any:
    """JSON Merge Patch (RFC 7396 section 2)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def recipient_body(stored: StoredRecipient, ring: KeyRing, *, reveal: bool = False) -> dict[str, Any]:
    """As the API tells it. reveal: addresses in the clear; then it raises a SealError for one that does not open."""
    return {
        "userId": stored.external_id,
        "email": _shown("EMAIL", stored.email, ring, reveal=reveal),
        "phone": _shown("SMS", stored.phone, ring, reveal=reveal),
        "locale": stored.locale,
        "timeZone": stored.time_zone,
        "attributes": dict(stored.attributes),
        "createdAt": stored.created_at,
        "updatedAt": stored.updated_at,
    }


def _shown(channel: str, address: SealedAddress | None, ring: KeyRing, *, reveal: bool) -> str | None:
    if address is None:
        return None
    if reveal:
        return address.open(ring)
    try:
        return masked(channel, address.open(ring))
    except SealError:
        return _UNREADABLE
