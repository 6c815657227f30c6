"""The pool: values in and out, and what it says when the server is not there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

import shared.postgres.query
from shared.postgres.errors import UnavailableError, translated
from shared.postgres.pool import Pool, connect, open_pool
from shared.postgres.settings import PostgresSettings

pytestmark = pytest.mark.postgres

Until = Callable[[str], Awaitable[None]]


@pytest.mark.parametrize("value", [{"name": "Ayşe", "n": 1.5, "list": [1, None]}, [1, {"a": []}], "text", 7, None])
async def test_jsonb_travels_as_python_objects(pool: Pool, value: object) -> None:
    assert await pool.fetchval("SELECT $1::jsonb", value) == value


async def test_jsonb_arrays_for_batches(pool: Pool) -> None:
    rows = await pool.fetch("SELECT value FROM unnest($1::jsonb[]) AS value", [{"a": 1}, {"b": [2]}])
    assert [row["value"] for row in rows] == [{"a": 1}, {"b": [2]}]


async def test_sessions_carry_their_name_and_no_jit(pool: Pool) -> None:
    assert await pool.fetchval("SELECT current_setting('application_name')") == "ulak test"
    assert await pool.fetchval("SELECT current_setting('jit')") == "off"


async def test_what_a_failure_leaves_open_is_over_when_the_connection_comes_back(database: str) -> None:
    """Nothing else is reset between two users: settings and locks of ours end with their transaction."""
    async with open_pool(PostgresSettings(dsn=database), name="one", size=1) as one:
        async with one.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("SET LOCAL lock_timeout = '7s'")
            await connection.execute("SELECT pg_advisory_xact_lock(7)")
        assert await one.fetchval("SELECT current_setting('lock_timeout')") == "0"
        assert (
            await one.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            == 0
        )


def test_no_statement_of_ours_outlives_its_transaction() -> None:
    """What the pool does not reset: session settings, session locks, cursors WITH HOLD, LISTEN."""
    folder = Path(shared.postgres.query.__file__).parent / "queries"
    for path in folder.glob("*.sql"):
        text = path.read_text(encoding="utf-8").upper()
        for leftover in ("PG_ADVISORY_LOCK(", "PG_TRY_ADVISORY_LOCK(", "SET_CONFIG(", "WITH HOLD", "LISTEN "):
            assert leftover not in text, f"{path.name}: {leftover}"


async def test_without_prepared_statements_for_a_pooler_O5(database: str) -> None:
    settings = PostgresSettings(dsn=database, statement_cache_size=0)
    async with open_pool(settings, name="pooled", size=1) as opened:
        assert await opened.fetchval("SELECT $1::int", 7) == 7
        assert await opened.fetchval("SELECT $1::jsonb", {"a": 1}) == {"a": 1}
        assert (
            await opened.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%$1::int%'") == 0
        )


@pytest.mark.parametrize("place", ["127.0.0.1:1/ulak", "no-such-host.invalid:5432/ulak"])
async def test_an_unreachable_server_is_named_without_the_password(place: str) -> None:
    settings = PostgresSettings(dsn=f"postgresql://ulak:s3cret@{place}", connect_timeout_sec=5)
    with pytest.raises(UnavailableError, match=place) as caught:
        async with open_pool(settings, name="test"):
            pass
    assert "s3cret" not in str(caught.value)
    assert "ULAK_POSTGRES_DSN" in str(caught.value)


async def test_a_database_that_is_not_there_says_so(database: str) -> None:
    settings = PostgresSettings(dsn=database.rpartition("/")[0] + "/ulak_no_such_database")
    with pytest.raises(UnavailableError, match=r"ulak_no_such_database.*does not exist"):
        async with connect(settings, name="test"):
            pass


async def test_a_lost_connection_is_unavailable(database: str, pool: Pool) -> None:
    async with connect(PostgresSettings(dsn=database), name="victim") as connection:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        await pool.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
        with pytest.raises(UnavailableError), translated():
            await connection.fetchval("SELECT 1")


async def test_a_statement_that_takes_too_long_is_unavailable(database: str) -> None:
    async with connect(PostgresSettings(dsn=database, command_timeout_sec=0.05), name="slow") as connection:
        with pytest.raises(UnavailableError), translated():
            await connection.execute("SELECT pg_sleep(30)")


async def test_our_own_faults_are_not_translated(pool: Pool) -> None:
    with pytest.raises(asyncpg.UndefinedTableError), translated():
        await pool.execute("SELECT * FROM ulak.no_such_table")


async def test_leaving_ends_its_connections(database: str, until: Until) -> None:
    async with open_pool(PostgresSettings(dsn=database), name="closing", size=2) as opened:
        await asyncio.gather(*(opened.fetchval("SELECT pg_sleep(0.01)") for _ in range(4)))
    await until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'ulak closing')")
