"""Bring the schema to this release's revision. Alembic keeps the order; the revisions themselves are plain SQL.

Migrations are expand/contract: a release adds what it needs and removes only what the release before it no longer
uses, so that versions N and N+1 run side by side on either schema (docs/data.md).
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import psycopg
from alembic import command, op
from alembic.config import Config
from sqlalchemy import Connection as SyncConnection
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from shared.postgres import producer
from shared.postgres.dsn import shown
from shared.postgres.errors import MigrationError, UnavailableError, describe
from shared.postgres.partition import DAYS_AHEAD, DAYS_BACK, ensure_partitions
from shared.postgres.pool import connect
from shared.postgres.schema import known_revisions
from shared.postgres.settings import PostgresSettings

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_LOCK_KEY: Final = 0x756C616B_01  # "ulak", 1: one migration of a database at a time
_LOCK_POLL_SEC: Final = 0.2


@dataclass(frozen=True, slots=True)
class Migration:
    """What a run did: revisions before (None: no schema yet) and after, and names of the partitions it created."""

    before: str | None
    after: str
    partitions: tuple[str, ...]


def migrate(
    dsn: str,
    *,
    ahead: int = DAYS_AHEAD,
    days_back: int = DAYS_BACK,
    today: date | None = None,
    say: Callable[[str], None] = lambda _line: None,
) -> Migration:
    """Apply missing revisions, then create missing partitions from `days_back` days ago to `ahead` days from today.

    Safe to run twice and by several processes at once: a session lock lets one work, the others wait, say so and find
    nothing left to do. A schema that is newer than this release is left as it is (rollback of a release).
    `today` is the UTC day. Blocks; may be called inside a running event loop, which it then holds up.
    Needs a direct connection, not a pooler in transaction mode. Raises UnavailableError or MigrationError.
    """
    with _connection(dsn) as connection, _locked(connection, say):
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS ulak")
        connection.commit()
        before = _revision(connection)
        if before is not None and before not in known_revisions():
            say(f"The schema is at revision {before}, which is newer than this release knows: left as it is.")
        else:
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        after = _revision(connection) or ""
        created = _create_partitions(dsn, today or datetime.now(UTC).date(), ahead, days_back)
    return Migration(before, after, created)


def run_sql(file_name: str) -> None:
    """Used by revisions: run a file of several statements as it is, in the revision's transaction."""
    _run((_MIGRATIONS / file_name).read_text(encoding="utf-8"))


def run_producer_step(name: str) -> None:
    """Used by revisions: Ulak's own database has the producers' tables as well."""
    _run(producer.step(name))


def _run(text: str) -> None:
    op.get_bind().exec_driver_sql(text, execution_options={"no_parameters": True})  # `%` and `;` mean themselves


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _connection(dsn: str) -> Iterator[SyncConnection]:
    engine = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(dsn, connect_timeout=10, application_name="ulak migrate"),
        poolclass=NullPool,
    )
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        cause = error.orig or error
        if error.connection_invalidated or isinstance(cause, psycopg.OperationalError):
            raise UnavailableError(
                f"PostgreSQL at {shown(dsn)} is not reachable ({describe(cause)}): "
                "start it or correct ULAK_POSTGRES_DSN"
            ) from error
        raise MigrationError(f"the migration failed and was rolled back: {describe(cause)}") from error


@contextmanager
def _locked(connection: SyncConnection, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the session lock. It is polled for: a session that waits inside a statement holds a snapshot, and a
    CREATE INDEX CONCURRENTLY of the one that works would wait for that snapshot for ever.
    """
    told = False
    while not _try_lock(connection):
        if not told:
            say("Another migration is running: waiting for it.")
            told = True
        time.sleep(_LOCK_POLL_SEC)
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.rollback()
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LOCK_KEY})")
            connection.commit()


def _try_lock(connection: SyncConnection) -> bool:
    taken = bool(connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({_LOCK_KEY})").scalar())
    connection.commit()
    return taken


def _revision(connection: SyncConnection) -> str | None:
    there = connection.exec_driver_sql("SELECT to_regclass('ulak.alembic_version')").scalar()
    revision = there and connection.exec_driver_sql("SELECT version_num FROM ulak.alembic_version").scalar()
    connection.commit()
    return str(revision) if revision else None


def _create_partitions(dsn: str, today: date, ahead: int, days_back: int) -> tuple[str, ...]:
    async def create() -> tuple[str, ...]:
        async with connect(PostgresSettings(dsn=dsn), name="migrate") as connection:
            return await ensure_partitions(connection, today, ahead=ahead, days_back=days_back)

    with ThreadPoolExecutor(max_workers=1) as thread:  # own loop, also where the caller's thread runs one already
        return thread.submit(asyncio.run, create()).result()
