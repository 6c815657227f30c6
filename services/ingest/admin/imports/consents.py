"""Consents as lines: what people said about being written to, into the ledger."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel

from services.ingest.admin.consent_line import ConsentBody, enter_consents, read_consent
from services.ingest.admin.imports.kind import Written
from shared.core.sealing import KeyRing
from shared.postgres.pool import Connection
from shared.web.problem import FieldError


class ConsentsKind:
    """A line whose reference is known already is taken, and is no second line of the ledger."""

    name: Final = "consents"
    line: Final[type[BaseModel]] = ConsentBody

    def read(self, content: Any, now: datetime) -> ConsentBody | tuple[FieldError, ...]:
        return read_consent(content, now)

    async def write(
        self, connection: Connection, ring: KeyRing, values: Sequence[ConsentBody], *, recorded_by: str
    ) -> Written:
        entered = await enter_consents(connection, ring, values, recorded_by=recorded_by)
        return Written({position: line for position, line in enumerate(entered) if isinstance(line, FieldError)})
