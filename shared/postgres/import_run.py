"""Runs of imports: how far each is, and which of its lines were bad. Written with the rows that they account for."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from shared.postgres.pool import Connection, Pool
from shared.postgres.query import load_queries

_SQL: Final = load_queries("import_run")
_PAGE: Final = 1000
_PATH_CHARS: Final = 128
_DETAIL_CHARS: Final = 256


class RunState(StrEnum):
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    ABORTED = "ABORTED"


@dataclass(frozen=True, slots=True)
class Run:
    """An import. lines: settled ones, where a stream goes on behind; blank ones are neither accepted nor rejected.

    streaming: a request is sending lines to it just now.
    """

    id: UUID
    kind: str
    state: RunState
    lines: int
    accepted: int
    rejected: int
    started_by: str
    created_at: datetime
    updated_at: datetime
    streaming: bool


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that was not taken: its number, from 1, and what is wrong. Never repeats what the line says."""

    line: int
    code: str
    path: str
    detail: str


async def start_run(connection: Connection, id_: UUID, kind: str, *, application_id: int, started_by: str) -> None:
    await connection.execute(_SQL["start"], id_, kind, application_id, started_by)


async def find_run(connection: Connection, id_: UUID) -> Run | None:
    row = await connection.fetchrow(_SQL["one"], id_)
    return None if row is None else _run(row)


async def list_runs(connection: Connection, *, before: UUID | None, state: RunState | None, limit: int) -> list[Run]:
    """The newest first."""
    return [_run(row) for row in await connection.fetch(_SQL["list"], before, state, limit)]


async def claim(connection: Connection, id_: UUID, stream: UUID, *, from_line: int, live_sec: float) -> bool:
    """Make the run this stream's; False: it does not run, goes on elsewhere, or is another living stream's.

    A stream that gives no sign of life for `live_sec` (its process was killed) gives way to the next one, and can
    settle nothing from then on.
    """
    return await connection.fetchval(_SQL["claim"], id_, stream, from_line, live_sec) is not None


async def renew(connection: Connection | Pool, id_: UUID, stream: UUID, *, live_sec: float) -> None:
    await connection.execute(_SQL["renew"], id_, stream, live_sec)


async def release(connection: Connection, id_: UUID, stream: UUID) -> None:
    """The stream has ended; the run waits for the next one."""
    await connection.execute(_SQL["release"], id_, stream)


async def settle(
    connection: Connection, id_: UUID, stream: UUID, *, lines: int, accepted: int, bad: Sequence[BadLine]
) -> bool:
    """Account for a chunk, in the transaction that writes its rows. False: the run is not the stream's any more, and
    the transaction must be rolled back.
    """
    if await connection.fetchval(_SQL["settle"], id_, stream, lines, accepted, len(bad)) is None:
        return False
    if bad:
        await connection.execute(
            _SQL["add_errors"],
            id_,
            [each.line for each in bad],
            [each.code for each in bad],
            [each.path[:_PATH_CHARS] for each in bad],
            [each.detail[:_DETAIL_CHARS] for each in bad],
        )
    return True


async def finish(connection: Connection, id_: UUID, stream: UUID) -> Run | None:
    """No more lines come. None: the run is not the stream's any more."""
    row = await connection.fetchrow(_SQL["finish"], id_, stream)
    return None if row is None else _run(row)


async def abort(connection: Connection, id_: UUID) -> Run | None:
    """What is committed stays; a stream finds it ended at its next chunk. None: it does not run."""
    row = await connection.fetchrow(_SQL["abort"], id_)
    return None if row is None else _run(row)


async def bad_lines(pool: Pool, id_: UUID, *, after: int = 0) -> AsyncIterator[list[BadLine]]:
    """Page by page in the order of the lines; no transaction is held between."""
    while rows := await pool.fetch(_SQL["errors"], id_, after, _PAGE):
        yield [BadLine(row["line"], row["code"], row["path"], row["detail"]) for row in rows]
        after = rows[-1]["line"]


def _run(row: Any) -> Run:
    return Run(
        id=row["id"],
        kind=row["kind"],
        state=RunState(row["state"]),
        lines=row["lines"],
        accepted=row["accepted"],
        rejected=row["rejected"],
        started_by=row["started_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        streaming=row["streaming"],
    )
