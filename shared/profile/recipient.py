"""What is said about a recipient: by a back office, an import, or an event of another system. Pure."""

from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, Field, StringConstraints

from shared.core.address import EmailAddress, InvalidAddressError, parse_email, parse_phone
from shared.core.zone import zone_names
from shared.postgres.recipient import RecipientProfile
from shared.web.model import Body, Locale, UserId
from shared.web.problem import FieldError

MAX_ATTRIBUTES_BYTES: Final = 16 * 1024


def check_attributes(value: dict[str, Any]) -> dict[str, Any]:
    """The same; ValueError for what cannot be stored or is too much."""
    try:
        encoded = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError("holds an integer of more than 64 bits: send it as text") from error
    if len(encoded) > MAX_ATTRIBUTES_BYTES:
        raise ValueError(f"is larger than {MAX_ATTRIBUTES_BYTES} bytes as JSON: keep what messages need")
    if rb"\u0000" in encoded:
        raise ValueError("holds a NUL character (\\u0000): leave it out")
    return value


def _zone(name: str) -> str:
    if name not in zone_names():
        raise ValueError("is not an IANA time zone: give a name like Europe/Istanbul, not an offset")
    return name


Email = Annotated[str, StringConstraints(min_length=3, max_length=320)]
Phone = Annotated[str, StringConstraints(min_length=3, max_length=40)]
TimeZone = Annotated[str, StringConstraints(max_length=64), AfterValidator(_zone)]
Attributes = Annotated[dict[str, Any], AfterValidator(check_attributes)]


class RecipientFields(Body):
    """What can be known of a recipient."""

    email: Email | None = None
    phone: Phone | None = Field(default=None, description="E.164, or as written in Turkey.", examples=["+905321234567"])
    locale: Locale | None = Field(default=None, examples=["tr-TR"])
    time_zone: TimeZone | None = Field(default=None, examples=["Europe/Istanbul"])
    attributes: Attributes | None = Field(default=None, description=f"At most {MAX_ATTRIBUTES_BYTES} bytes.")


class SaidRecipient(RecipientFields):
    """A recipient as others know them: what is left out, or null, leaves what is known here."""

    user_id: UserId

    def profile(self) -> RecipientProfile | tuple[FieldError, ...]:
        """Ready to be stored; or which address cannot be sent to."""
        email, phone = read_email(self.email), read_phone(self.phone)
        if isinstance(email, FieldError) or isinstance(phone, FieldError):
            return tuple(found for found in (email, phone) if isinstance(found, FieldError))
        return RecipientProfile(
            external_id=str(self.user_id),
            email=email,
            phone=phone,
            locale=self.locale,
            time_zone=self.time_zone,
            attributes=self.attributes,
        )


def read_email(text: str | None) -> EmailAddress | FieldError | None:
    try:
        return None if text is None else parse_email(text)
    except InvalidAddressError as error:
        return FieldError("email", str(error))


def read_phone(text: str | None) -> str | FieldError | None:
    try:
        return None if text is None else parse_phone(text)
    except InvalidAddressError as error:
        return FieldError("phone", str(error))
