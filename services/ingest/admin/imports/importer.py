"""Takes a stream of lines in: chunk after chunk, each committed with what is told of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import asyncpg

from services.ingest.admin import problem
from services.ingest.admin.change import Tell
from services.ingest.admin.imports.chunk import Chunk, bad_field, read_line
from services.ingest.admin.imports.kind import ImportKind
from services.ingest.admin.imports.lines import BrokenOffError, Line
from services.ingest.admin.imports.pace import Pace
from shared.core.identifier import IMPORT, new_id, public_id
from shared.postgres.audit_log import Actor, record
from shared.postgres.errors import UnavailableError, translated
from shared.postgres.import_run import (
    BadLine,
    Run,
    RunState,
    abort,
    claim,
    find_run,
    finish,
    list_runs,
    release,
    renew,
    settle,
    start_run,
)
from shared.postgres.pool import Connection, Pool
from shared.redis_store.invalidation import Kind
from shared.runtime.keyring import RingSource
from shared.runtime.logs import get_logger
from shared.runtime.metrics import IMPORT_LINES
from shared.web.problem import Problem, RefusedError

LIVE_SEC: Final = 15.0
"""A stream without a sign of life for so long is dead, and another one may go on."""
_SLICE: Final = 20
"""Lines read (some 0.1 ms each) before others get the event loop: login codes may be accepted in this process too."""
_TRIES: Final = 5
"""Times that a chunk is written which another transaction got in the way of; each begins anew."""
_KIND: Final = "import"

_log = get_logger(__name__)


class LostError(Exception):
    """The run is not this stream's any more: it was aborted, or another stream has gone on with it."""


class Importer:
    """Runs of imports in this process: at most `most` at once, all of them at one pace, on connections of their own.

    What is committed stays whatever happens: each chunk's rows, bad lines and counters are one transaction. A stream
    that breaks off leaves its run RUNNING, to be gone on with behind its `lines`.
    """

    def __init__(
        self,
        pool: Pool,
        rings: RingSource,
        tell: Tell,
        *,
        pace: Pace,
        most: int,
        clock: Callable[[], datetime],
        live_sec: float = LIVE_SEC,
    ) -> None:
        self.pool = pool
        self._rings = rings
        self._tell = tell
        self._pace = pace
        self._most = most
        self._clock = clock
        self._live_sec = live_sec
        self._streams = 0

    def require_room(self) -> None:
        """RefusedError while as many streams are read as may be."""
        if self._streams >= self._most:
            detail = f"{self._most} imports are running here. Come again later."
            raise RefusedError(problem.TOO_MANY_IMPORTS(detail, headers={"retry-after": "10"}))

    async def start(self, kind: str, actor: Actor, application_id: int) -> Run:
        """A new run, without a line yet."""
        id_ = new_id()
        async with self._transaction() as connection:
            await start_run(connection, id_, kind, application_id=application_id, started_by=actor.name)
            await record(connection, actor, "started", _KIND, public_id(IMPORT, id_), {"kind": kind})
            found = await find_run(connection, id_)
        assert found is not None
        return found

    async def find(self, id_: UUID) -> Run:
        async with self._transaction() as connection:
            found = await find_run(connection, id_)
        if found is None:
            raise RefusedError(problem.NO_SUCH_THING("There is no such import. List them with GET.", "importId"))
        return found

    async def runs(self, *, before: UUID | None, state: RunState | None, limit: int) -> Sequence[Run]:
        """The newest first, before a run."""
        async with self._transaction() as connection:
            return await list_runs(connection, before=before, state=state, limit=limit)

    async def abort(self, id_: UUID, actor: Actor) -> Run:
        """RefusedError for a run that has ended already."""
        async with self._transaction() as connection:
            ended = await abort(connection, id_)
            if ended is not None:
                await record(connection, actor, "aborted", _KIND, public_id(IMPORT, id_), _counts(ended))
        if ended is None:
            raise RefusedError(_ended(await self.find(id_)))
        return ended

    async def stream(
        self, run: Run, kind: ImportKind[Any], actor: Actor, from_line: int, lines: AsyncIterator[list[Line]]
    ) -> Run:
        """Take lines in from this one on, to the end of the body, which ends the run.

        RefusedError before a line is read (too many at once, another place to go on, another stream) or after some
        were taken; BrokenOffError if the caller hangs up. Either way what was settled stays, whole lines that had
        arrived included.
        """
        self.require_room()
        stream = new_id()
        self._streams += 1
        try:
            async with self._claimed(run.id, stream, from_line):
                await self._take(run, kind, actor, stream, from_line, lines)
                return await self._finish(run.id, stream, actor)
        except LostError as error:
            raise RefusedError(_elsewhere(await self.find(run.id))) from error
        finally:
            self._streams -= 1

    async def _take(
        self,
        run: Run,
        kind: ImportKind[Any],
        actor: Actor,
        stream: UUID,
        from_line: int,
        lines: AsyncIterator[list[Line]],
    ) -> None:
        chunk = Chunk(from_line)
        try:
            async for arrived in lines:
                for line in arrived:
                    chunk.add(line)
                    if chunk.full:
                        await self._settle(run.id, kind, actor, stream, chunk)
                        chunk = Chunk(chunk.first + len(chunk.lines))
        except (RefusedError, BrokenOffError):
            await self._settle(run.id, kind, actor, stream, chunk)
            raise
        await self._settle(run.id, kind, actor, stream, chunk)

    async def _settle(self, run: UUID, kind: ImportKind[Any], actor: Actor, stream: UUID, chunk: Chunk) -> None:
        if not chunk.lines:
            return
        await asyncio.sleep(self._pace.take(len(chunk.lines), time.monotonic()))
        values, bad = await self._read(kind, chunk)
        for left in reversed(range(_TRIES)):
            try:
                users = await self._commit(run, kind, actor, stream, len(chunk.lines), values, bad)
            except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as error:
                if not left:
                    raise UnavailableError("other transactions get in the way of every try: send on later") from error
                continue
            if users:
                await self._tell(Kind.PREFERENCES, users)
            return

    async def _read(self, kind: ImportKind[Any], chunk: Chunk) -> tuple[list[tuple[int, Any]], list[BadLine]]:
        now = self._clock()
        values: list[tuple[int, Any]] = []
        bad: list[BadLine] = []
        for index, line in enumerate(chunk.lines):
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            number = chunk.first + index
            found = read_line(kind, number, line, now)
            if isinstance(found, BadLine):
                bad.append(found)
            elif found is not None:
                values.append((number, found))
        return values, bad

    async def _commit(
        self,
        run: UUID,
        kind: ImportKind[Any],
        actor: Actor,
        stream: UUID,
        lines: int,
        values: Sequence[tuple[int, Any]],
        bad: Sequence[BadLine],
    ) -> set[int]:
        async with self._transaction() as connection:
            refused, users = await self._write(connection, kind, actor, values)
            accepted = len(values) - len(refused)
            mine = await settle(connection, run, stream, lines=lines, accepted=accepted, bad=[*bad, *refused])
            if not mine:
                raise LostError  # and with it what was just written
        IMPORT_LINES.labels(kind.name, "accepted").inc(accepted)
        IMPORT_LINES.labels(kind.name, "rejected").inc(len(bad) + len(refused))
        return users

    async def _write(
        self, connection: Connection, kind: ImportKind[Any], actor: Actor, values: Sequence[tuple[int, Any]]
    ) -> tuple[list[BadLine], set[int]]:
        """All in one go; where the database refuses a line, halves, until it is found."""
        if not values:
            return [], set()
        try:
            async with connection.transaction():
                written = await kind.write(
                    connection, self._rings.ring, [value for _, value in values], recorded_by=actor.name
                )
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.InterfaceError) as error:
            if isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError):  # the connection's
                raise
            if len(values) > 1:
                middle = len(values) // 2
                refused, users = await self._write(connection, kind, actor, values[:middle])
                more, others = await self._write(connection, kind, actor, values[middle:])
                return refused + more, users | others
            detail = f"the database refuses this line ({type(error).__name__}): correct its values"
            return [BadLine(values[0][0], "refused", "", detail)], set()
        return [bad_field(values[position][0], wrong) for position, wrong in written.refused.items()], set(
            written.users
        )

    async def _finish(self, id_: UUID, stream: UUID, actor: Actor) -> Run:
        async with self._transaction() as connection:
            ended = await finish(connection, id_, stream)
            if ended is None:
                raise LostError
            await record(connection, actor, "imported", _KIND, public_id(IMPORT, id_), _counts(ended))
        return ended

    @asynccontextmanager
    async def _claimed(self, id_: UUID, stream: UUID, from_line: int) -> AsyncIterator[None]:
        """The run is this stream's, kept alive, and free again at the end."""
        async with self._transaction() as connection:
            mine = await claim(connection, id_, stream, from_line=from_line, live_sec=self._live_sec)
        if not mine:
            raise LostError
        beating = asyncio.create_task(self._beat(id_, stream))
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating
            await self._release(id_, stream)

    async def _beat(self, id_: UUID, stream: UUID) -> None:
        while True:
            await asyncio.sleep(self._live_sec / 3)
            try:
                with translated():
                    await renew(self.pool, id_, stream, live_sec=self._live_sec)
            except UnavailableError as error:
                _log.warning("import_not_renewed", import_id=public_id(IMPORT, id_), reason=str(error))

    async def _release(self, id_: UUID, stream: UUID) -> None:
        try:
            async with self._transaction() as connection:
                await release(connection, id_, stream)
        except UnavailableError as error:  # then it frees itself after `live_sec`
            _log.warning("import_not_released", import_id=public_id(IMPORT, id_), reason=str(error))

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        with translated():
            async with self.pool.acquire() as connection, connection.transaction():
                yield connection


def _counts(run: Run) -> Mapping[str, Any]:
    return {"kind": run.kind, "lines": run.lines, "accepted": run.accepted, "rejected": run.rejected}


def _ended(run: Run) -> Problem:
    return problem.IMPORT_ENDED(f"This import is {run.state} with {run.lines} lines. Start another one.")


def _elsewhere(run: Run) -> Problem:
    """Why a stream cannot go on with the run."""
    if run.state is not RunState.RUNNING:
        return _ended(run)
    if run.streaming:
        return problem.IMPORT_STREAMING(
            "Another request is sending lines to this import. Let it end, or come again when it is cut off.",
            headers={"retry-after": str(round(LIVE_SEC))},
        )
    return problem.OTHER_LINE(
        f"This import goes on at line {run.lines + 1}. Send its lines from there, with fromLine={run.lines + 1}.",
        "fromLine",
    )
