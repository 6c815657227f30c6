"""Suppressions as lines: whom nothing, or no marketing, may be sent to; brought along from another system."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from services.ingest.admin.imports.kind import Written
from shared.core.address import InvalidAddressError, parse_email, parse_phone
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.postgres.suppression import NewSuppression, put_suppressions
from shared.web.invalid import invalid_fields
from shared.web.model import PRINTABLE, Body, Instant
from shared.web.problem import FieldError


class SuppressionLine(Body):
    """One address. The same again, in the same scope, prolongs what is there and never shortens it."""

    channel: Literal["EMAIL", "SMS"]
    address: Annotated[str, StringConstraints(min_length=3, max_length=320)]
    scope: Literal["ALL", "MARKETING"] = Field(default="ALL", description="What is not sent to it.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=32, pattern=r"^[a-z0-9_]+$")] = Field(
        default="imported", examples=["hard_bounce", "complaint"]
    )
    note: Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE)] | None = None
    expires_at: Instant | None = Field(default=None, description="null: for good.")


class SuppressionsKind:
    name: Final = "suppressions"
    line: Final[type[BaseModel]] = SuppressionLine

    def read(self, content: Any, _now: datetime) -> NewSuppression | tuple[FieldError, ...]:
        try:
            line = SuppressionLine.model_validate(content)
            canonical, address = _address(line)
        except ValidationError as error:
            return invalid_fields(error).errors
        except InvalidAddressError as error:
            return (FieldError("address", str(error)),)
        return NewSuppression(
            line.channel, canonical, address, line.scope, line.reason, "import", line.note, line.expires_at
        )

    async def write(
        self, connection: Connection, ring: KeyRing, values: Sequence[NewSuppression], *, recorded_by: str
    ) -> Written:
        await put_suppressions(connection, ring, values, created_by=recorded_by)
        return Written()


def _address(line: SuppressionLine) -> tuple[str, str]:
    """What decides sameness, and what is kept."""
    if line.channel == "EMAIL":
        email = parse_email(line.address)
        return email.canonical, email.text
    number = parse_phone(line.address)
    return number, number
