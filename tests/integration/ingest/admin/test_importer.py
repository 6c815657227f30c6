"""What an importer does when others get in its way; fixtures: pool, key_ring."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from services.ingest.admin.imports.importer import Importer
from services.ingest.admin.imports.kind import Written
from services.ingest.admin.imports.lines import Line
from services.ingest.admin.imports.pace import Pace
from services.ingest.admin.imports.preferences import PreferencesKind
from services.ingest.admin.imports.recipients import RecipientsKind
from shared.core.sealing import KeyRing
from shared.postgres.audit_log import Actor
from shared.postgres.import_run import Run
from shared.postgres.pool import Connection, Pool
from shared.redis_store.invalidation import Kind
from shared.runtime.keyring import FixedRingSource
from shared.web.problem import RefusedError
from tests.integration.ingest.conftest import until

pytestmark = pytest.mark.postgres

ACTOR = Actor("test")


class Told:
    """Who was told to forget what."""

    def __init__(self) -> None:
        self.users: list[int] = []

    async def __call__(self, kind: Kind, keys: Collection[int] = ()) -> None:
        assert kind is Kind.PREFERENCES
        self.users += keys


def importer(pool: Pool, ring: KeyRing, told: Told | None = None, *, live_sec: float = 15.0) -> Importer:
    return Importer(
        pool,
        FixedRingSource(ring),
        told or Told(),
        pace=Pace(1_000_000),
        most=2,
        clock=lambda: datetime.now(UTC),
        live_sec=live_sec,
    )


async def started(work: Importer, kind: str = "recipients") -> Run:
    return await work.start(kind, ACTOR, 1)


async def body(*lines: Any) -> AsyncIterator[list[Line]]:
    yield [orjson.dumps(line) for line in lines]


class Held:
    """A body whose second part comes when it is let."""

    def __init__(self, first: Sequence[Line], second: Sequence[Line]) -> None:
        self._parts = (first, second)
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def lines(self) -> AsyncIterator[list[Line]]:
        yield list(self._parts[0])
        self.asked.set()
        await self.let.wait()
        yield list(self._parts[1])


def users(first: int, end: int) -> list[Line]:
    return [orjson.dumps({"userId": f"u{number}"}) for number in range(first, end)]


async def test_only_those_whose_words_changed_are_forgotten_elsewhere(pool: Pool, key_ring: KeyRing) -> None:
    told = Told()
    work = importer(pool, key_ring, told)
    off = {"MARKETING": {"EMAIL": False}}
    run = await started(work)
    await work.stream(run, RecipientsKind(), ACTOR, 1, body({"userId": "a"}, {"userId": "b", "preferences": off}))
    run = await started(work, "preferences")
    await work.stream(run, PreferencesKind(), ACTOR, 1, body({"userId": "c", "preferences": off}))
    ids = await pool.fetch("SELECT user_id FROM ulak.recipients WHERE external_id IN ('b', 'c') ORDER BY external_id")
    assert told.users == [row["user_id"] for row in ids]


async def test_a_stream_that_was_thought_dead_settles_nothing_more(pool: Pool, key_ring: KeyRing) -> None:
    """It lives on in a process that nobody heard of for too long, while another has gone on with the run."""
    first, second = importer(pool, key_ring, live_sec=3600.0), importer(pool, key_ring)
    run = await started(first)
    held = Held(users(0, 1000), users(1000, 2000))
    stalled = asyncio.create_task(first.stream(run, RecipientsKind(), ACTOR, 1, held.lines()))
    await held.asked.wait()
    with pytest.raises(RefusedError) as early:
        await second.stream(run, RecipientsKind(), ACTOR, 1001, body({"userId": "x"}))
    assert early.value.problem.code == "import_streaming"
    await pool.execute("UPDATE ulak.import_runs SET stream_until = now()")
    ended = await second.stream(run, RecipientsKind(), ACTOR, 1001, body({"userId": "x"}))
    assert (ended.state, ended.lines) == ("FINISHED", 1001)
    held.let.set()
    with pytest.raises(RefusedError) as late:
        await stalled
    assert late.value.problem.code == "import_ended"
    assert (await first.find(run.id)).lines == 1001
    assert await pool.fetchval("SELECT count(*) FROM ulak.recipients") == 1001


async def test_a_slow_body_keeps_its_run_by_signs_of_life(pool: Pool, key_ring: KeyRing) -> None:
    work = importer(pool, key_ring, live_sec=0.3)
    run = await started(work)
    held = Held(users(0, 1000), users(1000, 1001))
    sending = asyncio.create_task(work.stream(run, RecipientsKind(), ACTOR, 1, held.lines()))
    await held.asked.wait()
    first = await pool.fetchval("SELECT stream_until FROM ulak.import_runs")

    async def renewed_past_it() -> bool:
        return bool(await pool.fetchval("SELECT now() > $1 AND stream_until > now() FROM ulak.import_runs", first))

    await until(renewed_past_it)
    held.let.set()
    assert (await sending).lines == 1001


async def test_imports_that_lock_the_same_users_in_other_orders(pool: Pool, key_ring: KeyRing) -> None:
    """Whatever PostgreSQL breaks up is written again: both take every line."""
    work = importer(pool, key_ring)
    token = {"platform": "IOS", "environment": "sandbox"}

    def lines(order: Sequence[int]) -> list[Any]:
        return [{"userId": f"u{n}", "devices": [{"token": f"{n:064x}"} | token]} for n in order]

    runs = [await started(work) for _ in range(2)]
    ended = await asyncio.gather(
        work.stream(runs[0], RecipientsKind(), ACTOR, 1, body(*lines(range(3000)))),
        work.stream(runs[1], RecipientsKind(), ACTOR, 1, body(*lines(range(2999, -1, -1)))),
    )
    assert [(run.accepted, run.rejected) for run in ended] == [(3000, 0)] * 2


class DeadlockedKind(RecipientsKind):
    """Runs into another transaction the first time, in earnest."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.times = 0

    async def write(self, connection: Connection, ring: KeyRing, values: Sequence[Any], *, recorded_by: str) -> Written:
        self.times += 1
        if self.times == 1:
            await connection.execute("SET LOCAL deadlock_timeout = '10ms'")
            await connection.execute("SELECT pg_advisory_xact_lock(1)")
            async with self._pool.acquire() as other, other.transaction():
                await other.execute("SET LOCAL deadlock_timeout = '1h'")
                await other.execute("SELECT pg_advisory_xact_lock(2)")
                waiting = asyncio.create_task(other.execute("SELECT pg_advisory_xact_lock(1)"))
                try:
                    await connection.execute("SELECT pg_advisory_xact_lock(2)")
                finally:
                    await waiting
        return await super().write(connection, ring, values, recorded_by=recorded_by)


async def test_a_chunk_that_a_deadlock_ends_is_written_again(pool: Pool, key_ring: KeyRing) -> None:
    work, kind = importer(pool, key_ring), DeadlockedKind(pool)
    run = await started(work)
    ended = await work.stream(run, kind, ACTOR, 1, body({"userId": "a"}, {"userId": "b"}))
    assert (ended.lines, ended.accepted, kind.times) == (2, 2, 2)
    assert await pool.fetchval("SELECT count(*) FROM ulak.recipients") == 2
