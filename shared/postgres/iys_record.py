"""What the registry of commercial messages (İYS) knows of the ledger, as operators look at it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.postgres.errors import translated
from shared.postgres.pool import Connection
from shared.postgres.query import load_queries

_SQL: Final = load_queries("iys")


@dataclass(frozen=True, slots=True)
class StateCount:
    """oldest: when the one that has been so for the longest time became so."""

    state: str
    records: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A line that the registry will not have as it is; code and detail are its own."""

    consent_id: UUID
    channel: str
    granted: bool
    at: datetime
    code: str
    detail: str
    attempts: int


async def count_records(connection: Connection) -> list[StateCount]:
    """How many lines are in which state. Raises UnavailableError."""
    with translated():
        return [StateCount(*row) for row in await connection.fetch(_SQL["counts"])]


async def refused_records(connection: Connection, *, limit: int) -> list[RefusedRecord]:
    """The latest refusals. Raises UnavailableError."""
    with translated():
        rows = await connection.fetch(_SQL["refused"], limit)
    return [
        RefusedRecord(
            row["consent_id"],
            row["channel"],
            row["granted"],
            row["at"],
            row["code"] or "",
            row["detail"] or "",
            row["attempts"],
        )
        for row in rows
    ]


async def retry_records(connection: Connection, *, ids: Sequence[UUID] | None = None, code: str | None = None) -> int:
    """Put refused lines in line again: these, all of a code, or all; how many. Raises UnavailableError."""
    with translated():
        return len(await connection.fetch(_SQL["retry"], None if ids is None else list(ids), code))
